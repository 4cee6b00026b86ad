import { DROP_REASONS } from '../../base/contract/forwarding.ts';
import { OperationError } from '../../base/contract/operation-error.ts';
import type { AuditRecord, Clock } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import type { Database } from '../../base/store/database.ts';
import { readVersion } from '../../domain/audit/config-loads.ts';
import {
  countToRead,
  fitter,
  listRequestRecords,
  type RequestFilter,
  type RequestRecord,
  readRequestRecord,
} from '../../domain/audit/request-records.ts';
import type { LimitReader } from '../../domain/budget/limits/limit-statuses.ts';
import { describeCounter } from '../../domain/budget/limits/spend-limits.ts';
import { readRequestAttempts, readRequestLedger } from '../../domain/budget/reports/request-ledger.ts';
import { usagePeriod } from '../../domain/budget/reports/usage-summary.ts';
import { configHash } from '../../domain/telemetry/config-hash.ts';
import type { Decision, DryRun, LimitStep } from '../../pipeline/explain/dry-run.ts';
import { recallRequest, replayRecord } from '../../pipeline/explain/past-request.ts';
import { effectiveRules, type RuleInWords } from '../../pipeline/explain/rules.ts';
import { recordFor } from '../../pipeline/explain/told-limits.ts';
import { type ToldReason, traceOf } from '../../pipeline/explain/trace.ts';
import { describeAmount, describeReason } from '../../pipeline/explain/words.ts';
import {
  type AdminOptions,
  type Asked,
  type Caller,
  EXPORT_PAGE,
  type ExportedList,
  endAsked,
  exportCsv,
  exportLines,
  type LiveFeed,
  ownerToList,
  type PageAsked,
  zoneAsked,
} from './calls.ts';
import { notInList } from './description.ts';

const reasonsOf = ({ reasons }: Decision): ToldReason[] =>
  reasons.map((reason) => ({ held: reason.held, words: describeReason(reason) }));

function limitWords({ scope, key, unit, limit, spent, reserved, needed, window, room }: LimitStep): string {
  const shown = (amount: number) => describeAmount(unit, amount);
  const per = window === 'open' ? 'at once' : `per ${window}`;
  const used = `${shown(spent + reserved)} of ${shown(limit)} ${per} used now`;
  return `${describeCounter({ scope, key })}: ${used}, likely to need ${shown(needed)}: ${room ? 'there is room' : 'no room'}`;
}

/** The first thing that a request would come to now, in one sentence. */
function outcomeOf({ stages, limits, facts, routing }: DryRun): {
  readonly would: 'go_out' | 'refused' | 'unknown';
  readonly words: string;
} {
  const raised = stages.find((stage) => stage.raised !== undefined)?.raised;
  if (raised !== undefined)
    return { would: 'refused', words: `It would be refused now: ${raised.message} (${raised.code ?? 'error'}).` };
  const full = limits.find(({ room }) => !room);
  if (full !== undefined)
    return { would: 'refused', words: `It would be refused now by the limit ${full.rule}: ${limitWords(full)}.` };
  const unknown = stages.find(({ fate }) => fate === 'unknown');
  const upstream = facts['route.upstream'];
  if (upstream === undefined)
    return { would: 'unknown', words: 'Nothing that was kept of it tells where it would go now.' };
  const rule = routing.find(({ held, mode }) => held && mode === 'enforce');
  const route = facts['route.rule'] === undefined ? 'its pipeline' : 'the default route';
  const by = rule === undefined ? route : `the rule ${rule.name}`;
  const unless = unknown === undefined ? '' : ` The stage ${unknown.id} depends on what was not kept.`;
  return { would: 'go_out', words: `It would go to ${String(upstream)} now, by ${by}.${unless}` };
}

/** What the configuration in force would make of a request of the past, in words. */
function tellReplay(run: DryRun, record: AuditRecord) {
  const { would, words } = outcomeOf(run);
  const was = typeof record.upstream === 'string' && record.error === null ? record.upstream : undefined;
  const is_same = would === 'go_out' ? was === run.facts['route.upstream'] : would === 'refused' && was === undefined;
  return {
    would,
    words: `${words}${is_same ? ' As it did then.' : ''}`,
    pipeline: run.pipeline,
    stages: run.stages
      .filter(({ fate, list }) => fate !== 'unreached' && list !== 'on_error')
      .map((stage) => ({
        id: stage.id,
        fate: stage.fate as 'runs' | 'skipped' | 'unknown',
        missing: [...(stage.missing ?? [])],
        condition: stage.guard?.text ?? null,
        reasons: stage.guard === undefined ? [] : reasonsOf(stage.guard),
        raised: stage.raised?.message ?? null,
      })),
    rules: run.routing.map((rule) => ({
      name: rule.name,
      mode: rule.mode,
      held: rule.after_decision ? null : rule.held,
      condition: rule.text,
      effect: rule.effect,
      reasons: reasonsOf(rule),
    })),
    upstreams: run.upstreams.map(({ upstream, dropped }) =>
      dropped === undefined ? upstream : `${upstream}: ${DROP_REASONS[dropped]}`,
    ),
    limits: run.limits.map((limit) => ({ rule: limit.rule, room: limit.room, words: limitWords(limit) })),
  };
}

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const number = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null);

function modelsOf(record: AuditRecord) {
  const { model, alias, upstream_model, billed } = record;
  const answered = (billed as { readonly model?: unknown } | null | undefined)?.model;
  const sent = text(upstream_model);
  const was_answered = number(record.upstream_status) !== null && Number(record.upstream_status) < 400;
  return {
    asked_model: text(alias) ?? text(model),
    model: text(model),
    sent_model: sent,
    answered_model: text(answered) ?? (was_answered ? sent : null),
  };
}

/** One request as lists show it. A record may come from a stage of the operator's own: what it lacks is `null`. */
function requestRow({ at, record }: Pick<RequestRecord, 'at' | 'record'>) {
  const { attempts, sends } = record;
  return {
    id: text(record.request_id) ?? '',
    at,
    user: text(record.user),
    team: text(record.team),
    project: text(record.project),
    token_id: text(record.token_id),
    token_name: text(record.token_name),
    token_group: text(record.token_group),
    client: text(record.client),
    client_version: text(record.client_version),
    protocol: text(record.protocol),
    ...modelsOf(record),
    upstream: text(record.upstream),
    attempts: Array.isArray(attempts) ? attempts.length : Number(sends ?? 0) > 0 ? 1 : 0,
    stream: record.stream === true,
    status: number(record.status),
    error: text(record.error),
    refused_by: text(record.spend_rule) ?? text(record.refused_by) ?? text(record.stage),
    aborted: record.aborted === true,
    input_tokens: number(record.input_tokens),
    cache_read_tokens: number(record.cache_read_tokens),
    cache_write_tokens: sum(number(record.cache_write_5m_tokens), number(record.cache_write_1h_tokens)),
    output_tokens: number(record.output_tokens),
    cost_usd: number(record.cost_usd),
    cost_estimated:
      record.cost_from !== undefined && record.cost_from !== 'upstream' && number(record.cost_usd) !== null,
    ttfb_ms: number(record.ttfb_ms),
    duration_ms: number(record.duration_ms),
  };
}

function sum(a: number | null, b: number | null): number | null {
  return a === null && b === null ? null : (a ?? 0) + (b ?? 0);
}

/** A record as a line of JSON has it: all that was written down, as `appscli audit tail --json` prints it. */
type Line = AuditRecord & { readonly id: number; readonly at: Date };

function exportedRequests(
  { database, clock }: { readonly database: Pick<Database, 'query'>; readonly clock: Pick<Clock, 'now'> },
  filter: RequestFilter,
  reader: LimitReader,
): ExportedList<Line> {
  const now = clock.now();
  async function* pages(): AsyncIterable<readonly Line[]> {
    // What comes while it is read is not in it.
    const bounded = { ...filter, until: filter.until ?? new Date(now) };
    for (let after: string | null | undefined; after !== null; ) {
      const page = await listRequestRecords(database, bounded, { limit: EXPORT_PAGE, after, now });
      if (page === undefined) throw new Error('the records that come next were deleted while they were read');
      const { records, next } = page;
      if (records.length > 0) yield records.map(({ id, at, record }) => ({ ...recordFor(reader, record), id, at }));
      after = next;
    }
  }
  const titles = Object.keys(requestRow({ at: new Date(0), record: {} }));
  return {
    name: 'requests',
    titles,
    row: ({ at, ...record }) => requestRow({ at, record }),
    pages,
    count: (most) => countToRead(database, filter, most),
  };
}

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
