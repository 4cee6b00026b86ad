/** The trace of a past request, from its audit record: what happened then, not what would happen now. @module */
import { ERRORS } from '../../base/contract/errors.ts';
import { ATTEMPT_REASONS, DROP_REASONS } from '../../base/contract/forwarding.ts';
import type { AuditRecord } from '../../base/contract/services.ts';
import { formatUsd, isNanoUsd, usdToNano } from '../../base/kit/money.ts';
import { jsonText } from '../../base/kit/text/printable.ts';
import { factsRead } from '../../base/rules/fact-paths.ts';
import { factView } from '../../base/rules/fact-view.ts';
import type { Reason } from '../../base/rules/trace.ts';
import { RECORDED_FACTS, recordedFacts } from '../../domain/audit/recorded-facts.ts';
import type { LimitReader } from '../../domain/budget/limits/limit-statuses.ts';
import { describeCounter } from '../../domain/budget/limits/spend-limits.ts';
import type { RequestAttempt } from '../../domain/budget/reports/request-ledger.ts';
import { decisionOf } from './dry-run.ts';
import type { RuleInWords } from './rules.ts';

type FormatMoment = (moment: Date) => string;

const formatInUtc: FormatMoment = (moment) => `${moment.toISOString().slice(0, 16).replace('T', ' ')} UTC`;

/** The value of a fact for people: money in USD, times as dates. */
export function describeValue(path: string, value: unknown, format: FormatMoment = formatInUtc): string {
  if (value === null || value === undefined) return 'not set';
  if (isNanoUsd(path)) return `${formatUsd(Number(value))} USD`;
  if (path.endsWith('_at')) return format(new Date(Number(value)));
  return jsonText(value);
}

/** A comparison with the facts it read: `request.model is coder-1 (request.model is "coder-2")`. */
export function describeReason({ condition, saw }: Reason, format: FormatMoment = formatInUtc): string {
  const values = Object.entries(saw).map(([path, value]) => `${path} is ${describeValue(path, value, format)}`);
  return values.length === 0 ? condition : `${condition} (${values.join(', ')})`;
}

/** An amount of a limit, in its unit. */
export function describeAmount(unit: string, amount: number): string {
  return unit === 'usd' ? `${formatUsd(usdToNano(amount))} USD` : `${amount} ${unit}`;
}

function withMeaning(words: Readonly<Record<string, string>>, word: string): string {
  return Object.hasOwn(words, word) ? `${words[word]} (${word})` : word;
}

/** The result of an attempt: `main: overloaded, status 529, 12 ms; went to the next upstream: overloaded (next_overloaded)`. */
export function describeAttempt(
  attempt: Pick<RequestAttempt, 'upstream' | 'outcome' | 'status' | 'reason' | 'ms'> &
    Partial<Pick<RequestAttempt, 'possibly_billed_nano_usd'>>,
): string {
  const { upstream, outcome, status, reason, ms, possibly_billed_nano_usd: possibly } = attempt;
  const facts = [
    outcome,
    ...(status === null ? [] : [`status ${status}`]),
    ...(ms === null || ms === undefined ? [] : [`${Math.round(ms)} ms`]),
    ...(possibly ? [`possibly billed: ${formatUsd(possibly)} USD`] : []),
  ];
  return `${upstream}: ${facts.join(', ')}; ${withMeaning(ATTEMPT_REASONS, reason)}`;
}

/** Why an upstream was skipped, from `name: reason`. */
export function describeDropped(text: string): string {
  const [upstream = '', reason = ''] = text.split(': ');
  return `${upstream}: ${withMeaning(DROP_REASONS, reason)}`;
}

/** The limits of an audit record. Skips malformed entries. */
function limitViews(record: AuditRecord, reader: LimitReader) {
  const limits = Array.isArray(record.limits) ? (record.limits as Record<string, unknown>[]) : [];
  const isWhole = ({ limit, spent, reserved }: Record<string, unknown>) =>
    [limit, spent, reserved].every((amount) => typeof amount === 'number' && Number.isFinite(amount));
  return limits
    .filter((found) => found !== null && isWhole(found))
    .flatMap((limit) => {
      try {
        return [limitView(limit, record, reader)];
      } catch {
        // The record may come from an operator's stage, with invalid amounts or keys.
        return [];
      }
    });
}

/** The author of a change; empty for readers who are not administrators. */
const byWhom = (who: unknown, { is_admin }: LimitReader) => (is_admin && typeof who === 'string' ? ` by ${who}` : '');

/** Formats a time; records of operators' stages may contain anything. */
const moment = (at: unknown) => {
  const read = new Date(String(at));
  return Number.isNaN(read.getTime()) ? String(at) : formatInUtc(read);
};

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** Sentences about changes and grants of a limit at run time; `undefined` without any. */
function describeChanges(limit: Readonly<Record<string, unknown>>, reader: LimitReader): string | undefined {
  const { set_at, set_by, unit } = limit;
  const grants = Array.isArray(limit.grants) ? limit.grants.filter(isRecord) : [];
  const sentences = [
    ...(typeof set_at === 'string' ? [`Set at run time${byWhom(set_by, reader)}, ${moment(set_at)}.`] : []),
    ...grants.map(({ amount, granted_at, granted_by, expires_at }) => {
      const until = `${moment(granted_at)}, until ${moment(expires_at)}`;
      return `Includes a grant of ${describeAmount(String(unit), Number(amount))}${byWhom(granted_by, reader)}, ${until}.`;
    }),
  ];
  return sentences.length === 0 ? undefined : sentences.join(' ');
}

/** An audit record for a reader. Names of those who changed or granted limits are for administrators only. */
export function recordFor({ is_admin }: LimitReader, record: AuditRecord): AuditRecord {
  if (is_admin || !Array.isArray(record.limits)) return record;
  const limits = (record.limits as readonly unknown[]).map((limit) => {
    if (!isRecord(limit)) return limit;
    const { set_by: _, grants, ...known } = limit;
    const nameless = ({ granted_by: _by, ...grant }: Record<string, unknown>) => grant;
    return { ...known, ...(Array.isArray(grants) && { grants: grants.filter(isRecord).map(nameless) }) };
  });
  return { ...record, limits };
}

/**
 * A limit before and after a request, amounts in its unit. `reserved`: by other requests in flight then; `after`: spent with this
 * request, `null` if it was not settled and for other units than money; `changed`: changes at run time in words.
 */
function limitView(found: Record<string, unknown>, record: AuditRecord, reader: LimitReader) {
  const { rule, scope, key, window, unit } = Object.fromEntries(
    ['rule', 'scope', 'key', 'window', 'unit'].map((name) => [name, String(found[name])]),
  ) as Record<'rule' | 'scope' | 'key' | 'window' | 'unit', string>;
  const [limit, spent, reserved] = [Number(found.limit), Number(found.spent), Number(found.reserved)];
  const refused = record.error !== null && record.reserved_usd === undefined;
  const cost = Number(record.cost_usd ?? Number.NaN);
  const is_usd = unit === 'usd';
  const after = refused || !is_usd || Number.isNaN(cost) ? null : (usdToNano(spent) + usdToNano(cost)) / 1e9;
  const shown = (amount: number) => describeAmount(unit, amount);
  const per = window === 'open' ? 'at once' : `per ${window}`;
  const others = reserved > 0 ? `, ${shown(reserved)} reserved by other requests` : '';
  const then = after === null ? '' : `; ${shown(after)} with this request`;
  return {
    ...{ rule, scope, key, window, unit: unit as 'usd' | 'requests' | 'tokens' },
    ...{ limit, spent, reserved, after, refused },
    resets_at: typeof found.resets_at === 'string' ? found.resets_at : null,
    words: `${describeCounter({ scope, key })}: ${shown(spent)} of ${shown(limit)} ${per}${others}${then}`,
    changed: describeChanges(found, reader) ?? null,
  };
}

/** A comparison that determined a decision. */
export interface ReasonView {
  readonly held: boolean;
  readonly words: string;
}

interface TraceSources {
  /** The rules of its configuration, if still known. */
  readonly rules?: readonly RuleInWords[] | undefined;
  readonly attempts: readonly RequestAttempt[];
  readonly reader?: LimitReader;
}

const ADMINISTRATOR: LimitReader = { is_admin: true };

const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** The trace of a request. Records may come from operators' stages; missing fields are skipped. */
export function traceOf(record: AuditRecord, { rules, attempts, reader = ADMINISTRATOR }: TraceSources) {
  const seen = (typeof record.seen === 'object' ? record.seen : {}) as Readonly<Record<string, unknown>>;
  const facts = { ...recordedFacts(record), ...seen };
  const tried = attempts.length > 0 ? attempts : attemptsOf(record);
  const stages = stagesOf(record, facts, rules);
  return {
    why: whyOf(record, { attempts: tried, stages, rules, reader }),
    config: textOf(record.config),
    rules_known: rules !== undefined,
    pipeline: textOf(record.pipeline),
    stages,
    rules: rulesOf(record, facts, rules ?? []),
    limits: limitViews(record, reader),
    attempts: tried.map((attempt, i) => ({ n: i + 1, words: describeAttempt(attempt) })),
    dropped: texts(record.dropped).map(describeDropped),
    bytes: [...bytesOf(record), ...replacedOf(record), ...rewrittenOf(record)].join(' ') || null,
    shadow: texts(record.shadow),
  };
}

/** The attempts of an audit record. */
export function attemptsOf({ attempts }: AuditRecord): readonly RequestAttempt[] {
  return Array.isArray(attempts) ? (attempts.filter(isRecord) as unknown as RequestAttempt[]) : [];
}

type Facts = Readonly<Record<string, unknown>>;

/** The reasons of a condition's result; empty if the recorded facts give another result, because they changed later. */
function reasonsOf(logic: unknown, facts: Facts, held: boolean): ReasonView[] {
  if (logic === undefined || logic === true) return [];
  if (held && factsRead(logic).some((path) => !(path in facts) && !RECORDED_FACTS.has(path))) return [];
  const decision = resultOf(logic, facts);
  if (decision?.held !== held) return [];
  return decision.reasons.map((reason) => ({ held: reason.held, words: describeReason(reason) }));
}

/** The result of a condition; `undefined` where it fails on missing facts. */
function resultOf(logic: unknown, facts: Facts) {
  try {
    return decisionOf(logic, factView(Object.entries(facts)));
  } catch {
    return undefined;
  }
}

const STEP = /^(.+): (ran|skipped|shadow|refused|failed|left out|answered)(?:, ([\d.]+) ms)?$/;
const HELD: Readonly<Record<string, boolean>> = { skipped: false };

function stagesOf(record: AuditRecord, facts: Facts, rules: readonly RuleInWords[] | undefined) {
  return texts(record.steps).flatMap((text) => {
    const [, id, end, ms] = STEP.exec(text) ?? [];
    if (id === undefined || end === undefined) return [];
    const guard = rules?.find(({ kind, name }) => kind === 'guard' && name === `${record.pipeline}/${id}`);
    return [
      {
        id,
        end: end.replace(' ', '_') as 'ran' | 'skipped' | 'shadow' | 'refused' | 'failed' | 'left_out' | 'answered',
        ms: ms === undefined ? null : Number(ms),
        condition: guard?.text ?? null,
        reasons: guard === undefined ? [] : reasonsOf(guard.logic, facts, HELD[end] ?? true),
        file: guard?.file ?? null,
        line: guard?.line ?? null,
      },
    ];
  });
}

/** The rules of gateway.yaml with their results. Routing rules have results up to the deciding one; spend rules, if limits were checked. */
function rulesOf(record: AuditRecord, facts: Facts, rules: readonly RuleInWords[]) {
  const shadows = texts(record.shadow);
  const decided = textOf(record.route_rule);
  const checked_limits = Array.isArray(record.limits) || record.reserved_usd !== undefined;
  let is_decided = decided === null;
  const heldOf = ({ kind, name, mode, logic }: RuleInWords): boolean | null => {
    if (kind === 'spend' && logic === true && checked_limits) return true;
    if (kind === 'spend') return checked_limits && logic !== undefined ? (resultOf(logic, facts)?.held ?? null) : null;
    if (kind === 'access' && decided === null) return null;
    if (kind === 'access') return shadows.includes(`access:${name}`) || record.refused_by === `access rule ${name}`;
    if (is_decided) return null;
    is_decided = mode === 'enforce' && name === decided;
    return mode === 'shadow' ? shadows.includes(`routing:${name}`) : is_decided;
  };
  return rules.flatMap((rule) => {
    const { kind, name, mode, text: condition, effect, file, line, logic } = rule;
    if (kind !== 'routing' && kind !== 'access' && kind !== 'spend') return [];
    const held = heldOf(rule);
    const reasons = held === null ? [] : reasonsOf(logic, facts, held);
    return [{ kind, name, mode, condition, effect, file, line, held, reasons }];
  });
}

/** The error of a full context window was replaced by one that the client recognizes. */
const rewrittenOf = ({ error_rewritten }: AuditRecord): string[] =>
  error_rewritten === true ? ["The upstream's error was rewritten: the conversation is too long."] : [];

function replacedOf({ replaced, shadow }: AuditRecord): string[] {
  if (typeof replaced !== 'object' || replaced === null) return [];
  const counts = Object.entries(replaced).filter(([, count]) => typeof count === 'number');
  return counts.map(([id, count]) => {
    const verb = texts(shadow).includes(id) ? 'would have replaced' : 'replaced';
    return `${id} ${verb} ${count} ${count === 1 ? 'text' : 'texts'} of the response.`;
  });
}

function bytesOf(record: AuditRecord): string[] {
  const { upstream_protocol: upstream, protocol, sends } = record;
  if (Number(sends ?? 0) === 0) return [];
  const [rewrites, losses] = [texts(record.rewrites), texts(record.losses)];
  const lost = losses.length === 0 ? '' : `; not translatable: ${losses.join(', ')}`;
  if (rewrites.length === 0) return ['Sent byte for byte as received.'];
  if (!rewrites.includes('*')) return [`Sent as received, except for ${rewrites.join(', ')}${lost}.`];
  const is_translated = typeof upstream === 'string' && upstream !== protocol;
  return [
    is_translated ? `Translated from ${String(protocol)} to ${upstream}${lost}.` : `Rewritten by a stage${lost}.`,
  ];
}

type Known = Required<TraceSources> & { readonly stages: ReturnType<typeof stagesOf> };

const seconds = (ms: unknown) => {
  const number = Number(ms ?? 0);
  return number < 1000 ? `${Math.round(number)} ms` : `${(number / 1000).toFixed(1)} s`;
};
const ended = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`);

function whyOf(record: AuditRecord, known: Known): string {
  const { error, status } = record;
  const code = Number(status ?? 0);
  if (typeof error === 'string') return code < 500 ? refusal(record, error, known) : failure(record, error, known);
  if (record.aborted === true) {
    const read = record.drained === true ? ' The response was drained for its usage.' : '';
    return `The client disconnected after ${seconds(record.duration_ms)}, before the end of the response.${read}`;
  }
  if (code >= 400)
    return `${String(record.upstream ?? 'The gateway')} responded ${code}, and the client got that error.`;
  return served(record, known);
}

function placeOf(name: unknown, kind: RuleInWords['kind'], rules: Known['rules']): string {
  const rule = rules?.find((each) => each.kind === kind && each.name === name);
  return rule === undefined ? '' : ` (${rule.file}:${rule.line})`;
}

/** The authors of run-time changes to the limit that rejected a request; the reason already has the times. */
function changesOf({ limits, spend_rule }: AuditRecord, { is_admin }: LimitReader): string {
  if (!Array.isArray(limits) || !is_admin) return '';
  const refused = (limits as (Record<string, unknown> | null)[]).find((limit) => limit?.rule === spend_rule);
  const grants = Array.isArray(refused?.grants) ? (refused.grants as Record<string, unknown>[]) : [];
  const givers = [...new Set(grants.map(({ granted_by }) => String(granted_by)))];
  return [
    ...(typeof refused?.set_by === 'string' ? [` Set by ${refused.set_by}.`] : []),
    ...(givers.length > 0 ? [` Granted by ${givers.join(' and ')}.`] : []),
  ].join('');
}

function refusal(record: AuditRecord, error: string, { stages, rules, reader }: Known): string {
  const { spend_rule, reason, refused_by, model, alias, stage } = record;
  if (typeof reason === 'string') {
    const place = placeOf(spend_rule, 'spend', rules);
    const written = place === '' ? '' : ` Defined in${place.replace(/[()]/g, '')}.`;
    return `Rejected: ${ended(reason.replace(/\.$/, ''))}${written}${changesOf(record, reader)}`;
  }
  const meaning = meaningOf(error);
  if (typeof spend_rule === 'string') {
    return `Rejected by the limit ${spend_rule}${placeOf(spend_rule, 'spend', rules)}: ${ended(meaning)}`;
  }
  if (typeof refused_by === 'string') {
    return `Rejected: the ${refused_by} does not let the caller use ${String(alias ?? model)}.`;
  }
  const by = stages.find(({ id }) => id === stage);
  const because = by?.reasons.map(({ words }) => words).join(' and ') ?? '';
  const where = by?.file == null ? '' : ` (${by.file}:${by.line})`;
  const whom = typeof stage === 'string' ? ` by the stage ${stage}${where}` : '';
  return `Rejected${whom}${because === '' ? '' : ` because ${because}`}: ${ended(meaning)} (${error})`
    .replace('. (', ' (')
    .concat('.');
}

function meaningOf(error: string): string {
  if (!Object.hasOwn(ERRORS, error)) return error;
  const { meaning } = ERRORS[error as keyof typeof ERRORS];
  return meaning[0]!.toLowerCase() + meaning.slice(1);
}

function failure({ stage, upstream }: AuditRecord, error: string, { attempts }: Known): string {
  const tried = attempts.map(
    (attempt) => `${attempt.upstream} (${attempt.outcome}${attempt.status === null ? '' : `, ${attempt.status}`})`,
  );
  const where = attempts.length > 0 ? ` Tried: ${tried.join(', then ')}.` : '';
  const at =
    typeof upstream === 'string' ? ` at ${upstream}` : typeof stage === 'string' ? ` in the stage ${stage}` : '';
  return `Failed${at}: ${meaningOf(error)} (${error}).${where}`;
}

function served(record: AuditRecord, { attempts }: Known): string {
  const { duration_ms, ttfb_ms, cost_usd, route_rule } = record;
  const upstream = record.upstream ?? attempts.at(-1)?.upstream;
  const took = duration_ms === undefined ? '' : ` in ${seconds(duration_ms)}`;
  if (typeof upstream !== 'string') return `The gateway itself responded${took}.`;
  const first = ttfb_ms === undefined ? '' : `, first byte after ${seconds(ttfb_ms)}`;
  const failed = attempts.slice(0, -1).map((attempt) => `${attempt.upstream} (${attempt.outcome})`);
  const after = failed.length === 0 ? '' : `, after ${failed.join(' and ')}`;
  const cost = typeof cost_usd === 'number' ? ` It cost ${formatUsd(usdToNano(cost_usd))} USD.` : '';
  const rule = route_rule === 'default' ? 'the default route' : `the rule ${String(route_rule)}`;
  const by = typeof route_rule === 'string' ? rule : 'its pipeline';
  return `Served by ${upstream}${took}${first}${after}, by ${by}.${cost}`;
}
