import { ERRORS } from '../contract/errors.ts';
import type { AuditRecord } from '../contract/services.ts';
import { formatUsd, usdToNano } from '../kit/money.ts';
import type { LimitReader } from '../money/limits/written-limits.ts';
import type { RequestAttempt } from '../money/reports/request-attempts.ts';
import type { RuleInWords } from './rules.ts';
import type { ToldStage } from './told.ts';

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

/** Why a request ended as it did, by its audit record. */
export function whyOf(record: AuditRecord, known: Known): string {
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
