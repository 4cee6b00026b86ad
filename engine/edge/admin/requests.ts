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
import { configHash } from '../../domain/telemetry/config-hash.ts';
import type { Decision, DryRun, LimitStep } from '../../pipeline/explain/dry-run.ts';
import { recallRequest, replayRecord } from '../../pipeline/explain/past-request.ts';
import { effectiveRules, type RuleInWords } from '../../pipeline/explain/rules.ts';
import { describeAmount, describeReason, type ReasonView, recordFor, traceOf } from '../../pipeline/explain/trace.ts';
import { type AdminOptions, type Caller, type OperationContext, ownerToList } from './calls.ts';
import { type PeriodQuery, periodOf } from './description.ts';
import {
  EXPORT_PAGE,
  type ExportedList,
  exported,
  type LiveFeed,
  notInList,
  type PageQuery,
  pagesOf,
} from './lists.ts';

const reasonsOf = ({ reasons }: Decision): ReasonView[] =>
  reasons.map((reason) => ({ held: reason.held, words: describeReason(reason) }));

function limitWords({ scope, key, unit, limit, spent, reserved, needed, window, room }: LimitStep): string {
  const shown = (amount: number) => describeAmount(unit, amount);
  const per = window === 'open' ? 'at once' : `per ${window}`;
  const used = `${shown(spent + reserved)} of ${shown(limit)} ${per} used now`;
  return `${describeCounter({ scope, key })}: ${used}, about ${shown(needed)} needed: ${room ? 'within the limit' : 'over the limit'}`;
}

function outcomeOf({ stages, limits, facts, routing }: DryRun): {
  readonly would: 'go_out' | 'refused' | 'unknown';
  readonly words: string;
} {
  const raised = stages.find((stage) => stage.raised !== undefined)?.raised;
  if (raised !== undefined)
    return { would: 'refused', words: `It would be rejected now: ${raised.message} (${raised.code ?? 'error'}).` };
  const full = limits.find(({ room }) => !room);
  if (full !== undefined)
    return { would: 'refused', words: `It would be rejected now by the limit ${full.rule}: ${limitWords(full)}.` };
  const unknown = stages.find(({ fate }) => fate === 'unknown');
  const upstream = facts['route.upstream'];
  if (upstream === undefined)
    return { would: 'unknown', words: 'The recorded facts do not decide where it would go now.' };
  const rule = routing.find(({ held, mode }) => held && mode === 'enforce');
  const route = facts['route.rule'] === undefined ? 'its pipeline' : 'the default route';
  const by = rule === undefined ? route : `the rule ${rule.name}`;
  const unless = unknown === undefined ? '' : ` The stage ${unknown.id} depends on facts that were not recorded.`;
  return { would: 'go_out', words: `It would go to ${String(upstream)} now, by ${by}.${unless}` };
}

function replayView(run: DryRun, record: AuditRecord) {
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

/** A request as a list entry. Fields that a record of a custom stage lacks are `null`. */
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

function exportedRequests(
  { database, clock }: { readonly database: Pick<Database, 'query'>; readonly clock: Pick<Clock, 'now'> },
  filter: RequestFilter,
  reader: LimitReader,
): ExportedList<AuditRecord & { readonly id: number; readonly at: Date }> {
  const now = clock.now();
  // Excludes requests that arrive during the export.
  const bounded = { ...filter, until: filter.until ?? new Date(now) };
  const read = async (after?: string) => {
    const page = await listRequestRecords(database, bounded, { limit: EXPORT_PAGE, after, now });
    if (page === undefined) throw new Error('records were deleted during the export');
    const entries = page.records.map(({ id, at, record }) => ({ ...recordFor(reader, record), id, at }));
    return { entries, next: page.next };
  };
  const titles = Object.keys(requestRow({ at: new Date(0), record: {} }));
  return {
    name: 'requests',
    titles,
    row: ({ at, ...record }) => requestRow({ at, record }),
    pages: () => pagesOf(read),
    count: (most) => countToRead(database, filter, most),
  };
}

/** Filter of the list of requests. */
export type RequestsQuery = Omit<RequestFilter, 'since' | 'until' | 'user' | 'rules' | 'shadow'> &
  PeriodQuery & { readonly user?: string };

const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Requests with their decision traces: one's own, for administrators all. */
export function requestOperations(options: AdminOptions) {
  const { config, database, clock, explained, live } = options;

  function filterOf({ since, until, time_zone, ...query }: RequestsQuery, caller: Caller): RequestFilter {
    return { ...query, user: ownerToList(caller, query.user), ...periodOf({ since, until, time_zone }, config) };
  }

  /** Finds a request; for the caller, requests of other people do not exist. */
  async function find({ is_admin, email }: Caller, id: string): Promise<RequestRecord> {
    const found = ID.test(id) ? await readRequestRecord(database, id) : undefined;
    if (found !== undefined && (is_admin || found.record.user === email)) return found;
    throw new OperationError('no request with this id is visible to you', 'missing');
  }

  /** Rules of the configuration that decided: with logic for the active one, in words for a recorded one. */
  async function rulesOf({ config: version }: AuditRecord): Promise<readonly RuleInWords[] | undefined> {
    if (explained !== undefined && version === configHash(config)) {
      return effectiveRules(explained.loaded, config, explained.directory);
    }
    return typeof version === 'string' ? ((await readVersion(database, version))?.rules ?? undefined) : undefined;
  }

  return {
    async listRequests({ caller }: OperationContext, { limit, after, ...query }: RequestsQuery & PageQuery) {
      const page = await listRequestRecords(database, filterOf(query, caller), {
        limit,
        after,
        now: clock.now(),
      });
      if (page === undefined) throw notInList();
      return { requests: page.records.map(requestRow), next: page.next, searched_to: page.searched_to };
    },

    exportRequests: async ({ caller }: OperationContext, query: RequestsQuery) =>
      exported(exportedRequests(options, filterOf(query, caller), caller), 'jsonl'),

    exportRequestsCsv: async ({ caller }: OperationContext, query: RequestsQuery) =>
      exported(exportedRequests(options, filterOf(query, caller), caller), 'csv'),

    async getRequest({ caller }: OperationContext, { id }: { readonly id: string }) {
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

    async explainRequest({ caller }: OperationContext, { id }: { readonly id: string }) {
      await find(caller, id);
      if (explained === undefined) {
        throw new OperationError(
          'only a running gateway can replay requests; use "appscli explain" with the id',
          'conflict',
        );
      }
      const remembered = await recallRequest(database, config, id);
      if (remembered === undefined) throw new OperationError('no request with this id', 'missing');
      try {
        const run = replayRecord({ loaded: explained.loaded, config }, remembered);
        return { id, ...forCaller(caller, replayView(run, remembered.record)) };
      } catch (error) {
        if (!(error instanceof StartError)) throw error;
        throw new OperationError(error.message, 'conflict');
      }
    },

    async watchRequests(
      { caller }: OperationContext,
      { after, ...query }: RequestsQuery & { readonly after?: number },
    ): Promise<LiveFeed> {
      const fits = fitter(filterOf(query, caller));
      if (live === undefined) throw new OperationError('only a running gateway can stream requests', 'conflict');
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
          throw new OperationError('too many live views are open; close one', 'conflict');
        },
      };
    },
  };
}

interface Conditional {
  readonly condition: string | null;
  readonly reasons: readonly unknown[];
}

/**
 * Conditions may name other people: only administrators see all. Others see the rules that matched their own request, and the stage
 * that refused it.
 */
function forCaller<
  Rule extends Conditional & { readonly held: boolean | null },
  Stage extends Conditional,
  Answer extends { readonly rules: readonly Rule[]; readonly stages: readonly Stage[] },
>({ is_admin }: Caller, answer: Answer): Answer {
  if (is_admin) return answer;
  const refused = (stage: Stage) => 'end' in stage && stage.end === 'refused';
  return {
    ...answer,
    rules: answer.rules.filter(({ held }) => held === true),
    stages: answer.stages.map((stage) => (refused(stage) ? stage : { ...stage, condition: null, reasons: [] })),
  };
}
