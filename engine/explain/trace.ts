/**
 * How a request of the past was decided, by its audit record: what happened, not what would happen now.
 * @module
 */
import { RECORDED_FACTS, recordedFacts } from '../audit/recorded-facts.ts';
import type { AuditRecord } from '../contract/services.ts';
import type { LimitReader } from '../money/limits/written-limits.ts';
import type { RequestAttempt } from '../money/reports/request-attempts.ts';
import { factsRead } from '../rules/fact-paths.ts';
import { factView } from '../rules/fact-view.ts';
import { decisionOf } from './dry-run.ts';
import type { RuleInWords } from './rules.ts';
import type { ToldReason, ToldRule, ToldStage } from './told.ts';
import { type ToldLimit, toldLimits } from './told-limits.ts';
import { whyOf } from './why.ts';
import { describeAttempt, describeDropped, describeReason } from './words.ts';

/** How a request was decided. */
export interface Trace {
  /** Why it ended as it did, in one or two sentences. */
  readonly why: string;
  /** Version of the configuration that decided; `null` in records of a time when none was kept. */
  readonly config: string | null;
  /** Whether the texts of its rules are known. */
  readonly rules_known: boolean;
  readonly pipeline: string | null;
  readonly stages: readonly ToldStage[];
  readonly rules: readonly ToldRule[];
  readonly limits: readonly ToldLimit[];
  /** Each attempt in words. */
  readonly attempts: readonly { readonly n: number; readonly words: string }[];
  /** Upstreams that were not asked, in words. */
  readonly dropped: readonly string[];
  /** What the gateway changed in the body on its way up, and in the answer, in words; `null` where nothing was sent. */
  readonly bytes: string | null;
  /** What held in shadow mode. */
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
    bytes:
      [bytesOf(record), ...replacedOf(record), ...rewrittenOf(record)].filter((words) => words !== null).join(' ') ||
      null,
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
  if (
    logic === undefined ||
    logic === true ||
    factsRead(logic).some((path) => !(path in facts) && !RECORDED_FACTS.has(path) && held)
  )
    return [];
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
  return rules.flatMap((rule): ToldRule[] => {
    if (rule.kind !== 'routing' && rule.kind !== 'access' && rule.kind !== 'spend') return [];
    const { name, mode, text: condition, effect, file, line, logic } = rule;
    const kind: ToldRule['kind'] = rule.kind;
    const told = { kind, name, mode, condition, effect, file, line };
    if (kind === 'spend') {
      if (!asked_limits) return [{ ...told, held: null, reasons: [] }];
      const held = logic === undefined ? null : logic === true || holds(logic, facts);
      return [{ ...told, held, reasons: held === null ? [] : reasonsOf(logic, facts, held) }];
    }
    if (kind === 'access') {
      if (decided === null) return [{ ...told, held: null, reasons: [] }];
      const held = shadows.includes(`access:${name}`) || record.refused_by === `access rule ${name}`;
      return [{ ...told, held, reasons: reasonsOf(logic, facts, held) }];
    }
    const is_it = mode === 'enforce' && name === decided;
    const held = is_decided ? null : mode === 'shadow' ? shadows.includes(`routing:${name}`) : is_it;
    is_decided ||= is_it;
    return [{ ...told, held, reasons: held === null ? [] : reasonsOf(logic, facts, held) }];
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

/** What stages replaced in the answer, or would have. */
function replacedOf({ replaced, shadow }: AuditRecord): string[] {
  if (typeof replaced !== 'object' || replaced === null) return [];
  const counts = Object.entries(replaced).filter(([, count]) => typeof count === 'number');
  return counts.map(([id, count]) => {
    const verb = texts(shadow).includes(id) ? 'would have replaced' : 'replaced';
    return `In the answer ${id} ${verb} ${count} ${count === 1 ? 'text' : 'texts'}.`;
  });
}

function bytesOf(record: AuditRecord): string | null {
  const { upstream_protocol, protocol, sends } = record;
  if (Number(sends ?? 0) === 0) return null;
  const rewrites = texts(record.rewrites);
  const losses = texts(record.losses);
  const is_translated =
    typeof upstream_protocol === 'string' && upstream_protocol !== protocol && rewrites.includes('*');
  const lost = losses.length === 0 ? '' : `; ${losses.join(', ')} could not be said there as it came`;
  if (is_translated) return `Translated from ${String(protocol)} to ${upstream_protocol}${lost}.`;
  if (rewrites.length === 0) return 'Sent byte for byte as it came.';
  if (rewrites.includes('*')) return `Written anew by a stage${lost}.`;
  return `Sent as it came, but for ${rewrites.join(', ')}${lost}.`;
}
