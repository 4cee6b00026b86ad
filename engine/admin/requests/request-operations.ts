import { readVersion } from '../../audit/config-loads.ts';
import { fitter, type RequestFilter } from '../../audit/request-filter.ts';
import { listRequestRecords, type RequestRecord, readRequestRecord } from '../../audit/request-records.ts';
import { OperationError } from '../../contract/operation-error.ts';
import type { AuditRecord } from '../../contract/services.ts';
import { StartError } from '../../contract/start-error.ts';
import { recallRequest, replayRecord } from '../../explain/past-request.ts';
import { tellReplay } from '../../explain/replay-words.ts';
import { effectiveRules, type RuleInWords } from '../../explain/rules.ts';
import { recordFor } from '../../explain/told-limits.ts';
import { traceOf } from '../../explain/trace.ts';
import { readRequestAttempts } from '../../money/reports/request-attempts.ts';
import { readRequestLedger } from '../../money/reports/request-ledger.ts';
import { usagePeriod } from '../../money/reports/usage-period.ts';
import { configHash } from '../../telemetry/config-hash.ts';
import type { AdminOptions, Asked, PageAsked } from '../asked.ts';
import { type Caller, ownerToList } from '../caller.ts';
import { exportCsv, exportLines } from '../export-list.ts';
import { notInList } from '../input.ts';
import { endAsked, zoneAsked } from '../period.ts';
import type { LiveFeed } from './live-feed.ts';
import { exportedRequests } from './request-exports.ts';
import { requestRow } from './request-rows.ts';

/** Which requests are asked for, as parameters say it. */
export interface RequestsAsked extends Omit<RequestFilter, 'since' | 'until' | 'user' | 'rules' | 'shadow'> {
  readonly user?: string;
  readonly since?: string;
  readonly until?: string;
  readonly time_zone?: string;
}

const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Requests and how they were decided: one's own, for administrators everybody's. */
export function requestOperations(options: AdminOptions) {
  const { config, database, clock, explained, live } = options;

  async function filterOf({ since, until, time_zone, ...wish }: RequestsAsked, caller: Caller): Promise<RequestFilter> {
    const filter = { ...wish, user: ownerToList(caller, wish.user) };
    if (since === undefined && until === undefined) return filter;
    const zone = zoneAsked(time_zone, config);
    const period = await usagePeriod(
      options,
      { since: endAsked('since', since), until: endAsked('until', until) },
      zone,
    );
    return {
      ...filter,
      ...(since !== undefined && { since: period.since! }),
      ...(until !== undefined && { until: period.until }),
    };
  }

  /** What is somebody else's does not exist for the caller. */
  async function find({ is_admin, email }: Caller, id: string): Promise<RequestRecord> {
    const found = ID.test(id) ? await readRequestRecord(database, id) : undefined;
    if (found !== undefined && (is_admin || found.record.user === email)) return found;
    throw new OperationError('the audit log has no request with this id among those you may see', 'missing');
  }

  /** Rules of the configuration that decided: of the one in force with their logic, of one that was kept their words. */
  async function rulesOf({ config: version }: AuditRecord): Promise<readonly RuleInWords[] | undefined> {
    if (explained !== undefined && version === configHash(config)) {
      return effectiveRules(explained.loaded, config, explained.directory);
    }
    return typeof version === 'string' ? ((await readVersion(database, version))?.rules ?? undefined) : undefined;
  }

  return {
    async listRequests({ caller }: Asked, { limit, after, ...wish }: RequestsAsked & PageAsked) {
      const page = await listRequestRecords(database, await filterOf(wish, caller), { limit, after, now: clock.now() });
      if (page === undefined) throw notInList();
      return { requests: page.records.map(requestRow), next: page.next, searched_to: page.searched_to };
    },

    exportRequests: async ({ caller }: Asked, wish: RequestsAsked) =>
      exportLines(exportedRequests(options, await filterOf(wish, caller), caller)),

    exportRequestsCsv: async ({ caller }: Asked, wish: RequestsAsked) =>
      exportCsv(exportedRequests(options, await filterOf(wish, caller), caller)),

    async getRequest({ caller }: Asked, { id }: { readonly id: string }) {
      const found = await find(caller, id);
      const { record } = found;
      const attempts = await readRequestAttempts(database, id);
      const ledger = await readRequestLedger(database, id);
      return {
        request: requestRow(found),
        trace: forCaller(caller, traceOf(record, { rules: await rulesOf(record), attempts, reader: caller })),
        ledger: ledger.map(({ cost_nano_usd, ...row }) => ({ ...row, cost_usd: Number(cost_nano_usd) / 1e9 })),
        record: recordFor(caller, record),
      };
    },

    async explainRequest({ caller }: Asked, { id }: { readonly id: string }) {
      await find(caller, id);
      if (explained === undefined) {
        throw new OperationError(
          'only a running gateway knows its rules; "appscli explain" with the id tells it',
          'conflict',
        );
      }
      const remembered = await recallRequest(database, config, id);
      if (remembered === undefined) throw new OperationError('the audit log has no request with this id', 'missing');
      try {
        const run = replayRecord({ loaded: explained.loaded, config }, remembered);
        return { id, ...forCaller(caller, tellReplay(run, remembered.record)) };
      } catch (error) {
        if (!(error instanceof StartError)) throw error;
        throw new OperationError(error.message, 'conflict');
      }
    },

    async watchRequests(
      { caller }: Asked,
      { after, ...wish }: RequestsAsked & { readonly after?: number },
    ): Promise<LiveFeed> {
      const fits = fitter(await filterOf(wish, caller));
      if (live === undefined)
        throw new OperationError('only a running gateway tells of requests as they come', 'conflict');
      return {
        async open({ send, end }) {
          const stop = await live.listen({
            caller: caller.principal.id,
            after,
            take(records) {
              for (const found of records) {
                if (fits(found.record)) send({ id: found.id, event: 'request', data: requestRow(found) });
              }
            },
            end,
          });
          if (stop !== undefined) return stop;
          throw new OperationError('too many live views are open; close one of them', 'conflict');
        },
      };
    },
  };
}

/** A rule or stage of an answer. */
interface Told {
  readonly condition: string | null;
  readonly reasons: readonly unknown[];
}

/**
 * Conditions may name other people: who is no administrator is told those that held for their own request, and of stages the one
 * that refused it.
 */
function forCaller<
  Rule extends Told & { readonly held: boolean | null },
  Stage extends Told,
  Answer extends { readonly rules: readonly Rule[]; readonly stages: readonly Stage[] },
>({ is_admin }: Caller, told: Answer): Answer {
  if (is_admin) return told;
  const refused = (stage: Stage) => 'end' in stage && stage.end === 'refused';
  return {
    ...told,
    rules: told.rules.filter(({ held }) => held === true),
    stages: told.stages.map((stage) => (refused(stage) ? stage : { ...stage, condition: null, reasons: [] })),
  };
}
