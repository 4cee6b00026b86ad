/** The trace of a past request, from its audit record: what happened then, not what would happen now. @module */

import { ERRORS } from '../../base/contract/errors.ts';
import type { AuditRecord } from '../../base/contract/services.ts';
import { formatUsd, usdToNano } from '../../base/kit/money.ts';
import { factsRead } from '../../base/rules/fact-paths.ts';
import { factView } from '../../base/rules/fact-view.ts';
import { RECORDED_FACTS, recordedFacts } from '../../domain/audit/recorded-facts.ts';
import type { LimitReader } from '../../domain/budget/limits/limit-statuses.ts';
import type { RequestAttempt } from '../../domain/budget/reports/request-ledger.ts';
import { decisionOf } from './dry-run.ts';
import { type LimitView, limitViews } from './limit-views.ts';
import type { RuleInWords } from './rules.ts';
import { describeAttempt, describeDropped, describeReason } from './words.ts';

/** A comparison that determined a decision. */
export interface ReasonView {
  readonly held: boolean;
  readonly words: string;
}

interface PositionView {
  readonly file: string | null;
  readonly line: number | null;
}

interface StageView extends PositionView {
  readonly id: string;
  readonly end: 'ran' | 'skipped' | 'shadow' | 'refused' | 'failed' | 'left_out' | 'answered';
  readonly ms: number | null;
  /** Its guard. */
  readonly condition: string | null;
  readonly reasons: readonly ReasonView[];
}

interface RuleView extends PositionView {
  readonly kind: 'routing' | 'access' | 'spend';
  readonly name: string;
  readonly mode: 'enforce' | 'shadow';
  /** `null`: not evaluated because an earlier rule decided, or unknown. */
  readonly held: boolean | null;
  readonly condition: string;
  readonly effect: string;
  readonly reasons: readonly ReasonView[];
}

/** The decisions about a request. */
export interface Trace {
  /** The reason of its outcome, in one or two sentences. */
  readonly why: string;
  /** Hash of its configuration; `null` in records without one. */
  readonly config: string | null;
  readonly rules_known: boolean;
  readonly pipeline: string | null;
  readonly stages: readonly StageView[];
  readonly rules: readonly RuleView[];
  readonly limits: readonly LimitView[];
  readonly attempts: readonly { readonly n: number; readonly words: string }[];
  readonly dropped: readonly string[];
  /** Sentences about changes to the body and the response; `null` if nothing was sent. */
  readonly bytes: string | null;
  readonly shadow: readonly string[];
}

/** The sources of a trace besides the audit record. */
export interface TraceSources {
  /** The rules of its configuration, if still known. */
  readonly rules?: readonly RuleInWords[] | undefined;
  /** The attempts of the ledger; if empty, those of the record are used. */
  readonly attempts: readonly RequestAttempt[];
  /** An administrator by default. */
  readonly reader?: LimitReader;
}

const ADMINISTRATOR: LimitReader = { is_admin: true };

const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** The trace of a request. Records may come from operators' stages; missing fields are skipped. */
export function traceOf(record: AuditRecord, { rules, attempts, reader = ADMINISTRATOR }: TraceSources): Trace {
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
  const isOne = (each: unknown) => typeof each === 'object' && each !== null;
  return Array.isArray(attempts) ? (attempts.filter(isOne) as RequestAttempt[]) : [];
}

type Facts = Readonly<Record<string, unknown>>;

/** The reasons of a condition's result; empty if the recorded facts give another result, because they changed later. */
function reasonsOf(logic: unknown, facts: Facts, held: boolean): ReasonView[] {
  if (logic === undefined || logic === true) return [];
  if (held && factsRead(logic).some((path) => !(path in facts) && !RECORDED_FACTS.has(path))) return [];
  try {
    const decision = decisionOf(logic, factView(Object.entries(facts)));
    if (decision.held !== held) return [];
    return decision.reasons.map((reason) => ({ held: reason.held, words: describeReason(reason) }));
  } catch {
    // The condition may fail on missing facts.
    return [];
  }
}

const STEP = /^(.+): (ran|skipped|shadow|refused|failed|left out|answered)(?:, ([\d.]+) ms)?$/;
const HELD: Readonly<Record<string, boolean>> = { skipped: false };

function stagesOf(record: AuditRecord, facts: Facts, rules: readonly RuleInWords[] | undefined): StageView[] {
  return texts(record.steps).flatMap((text): StageView[] => {
    const [, id, end, ms] = STEP.exec(text) ?? [];
    if (id === undefined || end === undefined) return [];
    const guard = rules?.find(({ kind, name }) => kind === 'guard' && name === `${record.pipeline}/${id}`);
    return [
      {
        id,
        end: end.replace(' ', '_') as StageView['end'],
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
function rulesOf(record: AuditRecord, facts: Facts, rules: readonly RuleInWords[]): RuleView[] {
  const shadows = texts(record.shadow);
  const decided = textOf(record.route_rule);
  const checked_limits = Array.isArray(record.limits) || record.reserved_usd !== undefined;
  let is_decided = decided === null;
  const containingFact = ({ kind, name, mode, logic }: RuleInWords): boolean | null => {
    if (kind === 'spend') return checked_limits && logic !== undefined ? logic === true || holds(logic, facts) : null;
    if (kind === 'access' && decided === null) return null;
    if (kind === 'access') return shadows.includes(`access:${name}`) || record.refused_by === `access rule ${name}`;
    if (is_decided) return null;
    is_decided = mode === 'enforce' && name === decided;
    return mode === 'shadow' ? shadows.includes(`routing:${name}`) : is_decided;
  };
  return rules.flatMap((rule): RuleView[] => {
    const { kind, name, mode, text: condition, effect, file, line, logic } = rule;
    if (kind !== 'routing' && kind !== 'access' && kind !== 'spend') return [];
    const held = containingFact(rule);
    const reasons = held === null ? [] : reasonsOf(logic, facts, held);
    return [{ kind, name, mode, condition, effect, file, line, held, reasons }];
  });
}

function holds(logic: unknown, facts: Facts): boolean | null {
  try {
    return decisionOf(logic, factView(Object.entries(facts))).held;
  } catch {
    return null;
  }
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

/** The sources of `why` besides the record. */
interface Known {
  readonly attempts: readonly RequestAttempt[];
  readonly stages: readonly StageView[];
  readonly rules: readonly RuleInWords[] | undefined;
  readonly reader: LimitReader;
}

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

/** The position of a rule in the configuration. */
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
    return `Refused: ${ended(reason.replace(/\.$/, ''))}${written}${changesOf(record, reader)}`;
  }
  const meaning = meaningOf(error);
  if (typeof spend_rule === 'string') {
    return `Refused by the limit ${spend_rule}${placeOf(spend_rule, 'spend', rules)}: ${ended(meaning)}`;
  }
  if (typeof refused_by === 'string') {
    return `Refused: the ${refused_by} does not let the caller use ${String(alias ?? model)}.`;
  }
  const by = stages.find(({ id }) => id === stage);
  const because = by?.reasons.map(({ words }) => words).join(' and ') ?? '';
  const where = by?.file == null ? '' : ` (${by.file}:${by.line})`;
  const whom = typeof stage === 'string' ? ` by the stage ${stage}${where}` : '';
  return `Refused${whom}${because === '' ? '' : ` because ${because}`}: ${ended(meaning)} (${error})`
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
