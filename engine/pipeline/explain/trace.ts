/** How a request of the past was decided, by its audit record: what happened, not what would happen now. @module */

import { ERRORS } from '../../base/contract/errors.ts';
import type { AuditRecord } from '../../base/contract/services.ts';
import { formatUsd, usdToNano } from '../../base/kit/money.ts';
import { factsRead } from '../../base/rules/fact-paths.ts';
import { factView } from '../../base/rules/fact-view.ts';
import { RECORDED_FACTS, recordedFacts } from '../../domain/audit/recorded-facts.ts';
import type { LimitReader } from '../../domain/budget/limits/limit-statuses.ts';
import type { RequestAttempt } from '../../domain/budget/reports/request-ledger.ts';
import { decisionOf } from './dry-run.ts';
import type { RuleInWords } from './rules.ts';
import { type ToldLimit, toldLimits } from './told-limits.ts';
import { describeAttempt, describeDropped, describeReason } from './words.ts';

/** A comparison that decided. */
export interface ToldReason {
  readonly held: boolean;
  readonly words: string;
}

interface ToldPlace {
  readonly file: string | null;
  readonly line: number | null;
}

interface ToldStage extends ToldPlace {
  readonly id: string;
  readonly end: 'ran' | 'skipped' | 'shadow' | 'refused' | 'failed' | 'left_out' | 'answered';
  readonly ms: number | null;
  /** Of its guard. */
  readonly condition: string | null;
  readonly reasons: readonly ToldReason[];
}

interface ToldRule extends ToldPlace {
  readonly kind: 'routing' | 'access' | 'spend';
  readonly name: string;
  readonly mode: 'enforce' | 'shadow';
  /** `null`: it was not asked, because an earlier one had decided, or nobody knows. */
  readonly held: boolean | null;
  readonly condition: string;
  readonly effect: string;
  readonly reasons: readonly ToldReason[];
}

/** How a request was decided. */
export interface Trace {
  /** Why it ended as it did, in one or two sentences. */
  readonly why: string;
  /** Version of the configuration that decided; `null` in records of a time when none was kept. */
  readonly config: string | null;
  readonly rules_known: boolean;
  readonly pipeline: string | null;
  readonly stages: readonly ToldStage[];
  readonly rules: readonly ToldRule[];
  readonly limits: readonly ToldLimit[];
  readonly attempts: readonly { readonly n: number; readonly words: string }[];
  readonly dropped: readonly string[];
  /** What the gateway changed in the body on its way up, and in the answer, in words; `null` where nothing was sent. */
  readonly bytes: string | null;
  readonly shadow: readonly string[];
}

/** What is known beside the record. */
export interface TraceSources {
  /** Rules of the configuration that decided; absent where it is not known any more. */
  readonly rules?: readonly RuleInWords[] | undefined;
  /** Of the ledger; those of the record where it has none. */
  readonly attempts: readonly RequestAttempt[];
  /** Absent: an administrator. */
  readonly reader?: LimitReader;
}

const ADMINISTRATOR: LimitReader = { is_admin: true };

const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** How a request was decided, in words. A record may come from a stage of the operator's own: whatever it lacks is left out. */
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
    limits: toldLimits(record, reader),
    attempts: tried.map((attempt, i) => ({ n: i + 1, words: describeAttempt(attempt) })),
    dropped: texts(record.dropped).map(describeDropped),
    bytes: [...bytesOf(record), ...replacedOf(record), ...rewrittenOf(record)].join(' ') || null,
    shadow: texts(record.shadow),
  };
}

/** The attempts that an audit record tells one by one. */
export function attemptsOf({ attempts }: AuditRecord): readonly RequestAttempt[] {
  const isOne = (each: unknown) => typeof each === 'object' && each !== null;
  return Array.isArray(attempts) ? (attempts.filter(isOne) as RequestAttempt[]) : [];
}

type Facts = Readonly<Record<string, unknown>>;

/** Why a condition held or not; nothing where what is kept of the facts says otherwise, because they have changed since. */
function reasonsOf(logic: unknown, facts: Facts, held: boolean): ToldReason[] {
  if (logic === undefined || logic === true) return [];
  if (held && factsRead(logic).some((path) => !(path in facts) && !RECORDED_FACTS.has(path))) return [];
  try {
    const decision = decisionOf(logic, factView(Object.entries(facts)));
    if (decision.held !== held) return [];
    return decision.reasons.map((reason) => ({ held: reason.held, words: describeReason(reason) }));
  } catch {
    // A condition may fail on what is no longer there.
    return [];
  }
}

const STEP = /^(.+): (ran|skipped|shadow|refused|failed|left out|answered)(?:, ([\d.]+) ms)?$/;
const HELD: Readonly<Record<string, boolean>> = { skipped: false };

function stagesOf(record: AuditRecord, facts: Facts, rules: readonly RuleInWords[] | undefined): ToldStage[] {
  return texts(record.steps).flatMap((text): ToldStage[] => {
    const [, id, end, ms] = STEP.exec(text) ?? [];
    if (id === undefined || end === undefined) return [];
    const guard = rules?.find(({ kind, name }) => kind === 'guard' && name === `${record.pipeline}/${id}`);
    return [
      {
        id,
        end: end.replace(' ', '_') as ToldStage['end'],
        ms: ms === undefined ? null : Number(ms),
        condition: guard?.text ?? null,
        reasons: guard === undefined ? [] : reasonsOf(guard.logic, facts, HELD[end] ?? true),
        file: guard?.file ?? null,
        line: guard?.line ?? null,
      },
    ];
  });
}

/** The rules of gateway.yaml: for routing in their order up to the one that decided; those of spending only where they were asked. */
function rulesOf(record: AuditRecord, facts: Facts, rules: readonly RuleInWords[]): ToldRule[] {
  const shadows = texts(record.shadow);
  const decided = textOf(record.route_rule);
  const asked_limits = Array.isArray(record.limits) || record.reserved_usd !== undefined;
  let is_decided = decided === null;
  const heldBy = ({ kind, name, mode, logic }: RuleInWords): boolean | null => {
    if (kind === 'spend') return asked_limits && logic !== undefined ? logic === true || holds(logic, facts) : null;
    if (kind === 'access' && decided === null) return null;
    if (kind === 'access') return shadows.includes(`access:${name}`) || record.refused_by === `access rule ${name}`;
    if (is_decided) return null;
    is_decided = mode === 'enforce' && name === decided;
    return mode === 'shadow' ? shadows.includes(`routing:${name}`) : is_decided;
  };
  return rules.flatMap((rule): ToldRule[] => {
    const { kind, name, mode, text: condition, effect, file, line, logic } = rule;
    if (kind !== 'routing' && kind !== 'access' && kind !== 'spend') return [];
    const held = heldBy(rule);
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

/** That the client was told of a full context in its own words. */
const rewrittenOf = ({ error_rewritten }: AuditRecord): string[] =>
  error_rewritten === true ? ["The upstream's error was written anew: the conversation is too long."] : [];

function replacedOf({ replaced, shadow }: AuditRecord): string[] {
  if (typeof replaced !== 'object' || replaced === null) return [];
  const counts = Object.entries(replaced).filter(([, count]) => typeof count === 'number');
  return counts.map(([id, count]) => {
    const verb = texts(shadow).includes(id) ? 'would have replaced' : 'replaced';
    return `In the answer ${id} ${verb} ${count} ${count === 1 ? 'text' : 'texts'}.`;
  });
}

function bytesOf(record: AuditRecord): string[] {
  const { upstream_protocol: upstream, protocol, sends } = record;
  if (Number(sends ?? 0) === 0) return [];
  const [rewrites, losses] = [texts(record.rewrites), texts(record.losses)];
  const lost = losses.length === 0 ? '' : `; ${losses.join(', ')} could not be said there as it came`;
  if (rewrites.length === 0) return ['Sent byte for byte as it came.'];
  if (!rewrites.includes('*')) return [`Sent as it came, but for ${rewrites.join(', ')}${lost}.`];
  const is_translated = typeof upstream === 'string' && upstream !== protocol;
  return [
    is_translated ? `Translated from ${String(protocol)} to ${upstream}${lost}.` : `Written anew by a stage${lost}.`,
  ];
}

/** What the sentence is made of beside the record. */
interface Known {
  readonly attempts: readonly RequestAttempt[];
  readonly stages: readonly ToldStage[];
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
    const read = record.drained === true ? ' The answer was read to its end for its bill.' : '';
    return `The client went away after ${seconds(record.duration_ms)}, before the end of the answer.${read}`;
  }
  if (code >= 400) return `${String(record.upstream ?? 'The gateway')} answered ${code}, and the client was told so.`;
  return served(record, known);
}

/** Where a spend rule, or the guard of a stage, is written. */
function placeOf(name: unknown, kind: RuleInWords['kind'], rules: Known['rules']): string {
  const rule = rules?.find((each) => each.kind === kind && each.name === name);
  return rule === undefined ? '' : ` (${rule.file}:${rule.line})`;
}

/** Who changed the limit that refused a request at run time, beside the reason, which says when; empty where nobody did. */
function changesOf({ limits, spend_rule }: AuditRecord, { is_admin }: LimitReader): string {
  if (!Array.isArray(limits) || !is_admin) return '';
  const refused = (limits as (Record<string, unknown> | null)[]).find((limit) => limit?.rule === spend_rule);
  const grants = Array.isArray(refused?.grants) ? (refused.grants as Record<string, unknown>[]) : [];
  const givers = [...new Set(grants.map(({ granted_by }) => String(granted_by)))];
  return [
    ...(typeof refused?.set_by === 'string' ? [` It was set by ${refused.set_by}.`] : []),
    ...(givers.length > 0 ? [` The grant is by ${givers.join(' and ')}.`] : []),
  ].join('');
}

function refusal(record: AuditRecord, error: string, { stages, rules, reader }: Known): string {
  const { spend_rule, reason, refused_by, model, alias, stage } = record;
  if (typeof reason === 'string') {
    const place = placeOf(spend_rule, 'spend', rules);
    const written = place === '' ? '' : ` It is written in${place.replace(/[()]/g, '')}.`;
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
  if (typeof upstream !== 'string') return `Answered by the gateway itself${took}.`;
  const first = ttfb_ms === undefined ? '' : `, first byte after ${seconds(ttfb_ms)}`;
  const failed = attempts.slice(0, -1).map((attempt) => `${attempt.upstream} (${attempt.outcome})`);
  const after = failed.length === 0 ? '' : `, after ${failed.join(' and ')}`;
  const cost = typeof cost_usd === 'number' ? ` It cost ${formatUsd(usdToNano(cost_usd))} USD.` : '';
  const rule = route_rule === 'default' ? 'the default route' : `the rule ${String(route_rule)}`;
  const by = typeof route_rule === 'string' ? rule : 'its pipeline';
  return `Served by ${upstream}${took}${first}${after}, by ${by}.${cost}`;
}
