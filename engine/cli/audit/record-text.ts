import type { RequestRecord } from '../../audit/request-records.ts';
import type { AuditRecord } from '../../contract/services.ts';
import { describeChanges } from '../../explain/told-limits.ts';
import { formatUsd, usdToNano } from '../../kit/money.ts';
import { printable, printableWord } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { formatTimestamp } from '../times.ts';

const INDENT = '    ';

/** A part of a line that is one word or in quotes, whoever wrote it. */
const word = (value: unknown): string | undefined =>
  value === null || value === undefined ? undefined : printableWord(String(value));

const words = (value: unknown): string[] =>
  Array.isArray(value) ? value.map((each) => printableWord(String(each))) : [];

/** One record for a person: when, with which result, who and what; below it why, and what it cost. */
export function describeRecord({ at, record }: Pick<RequestRecord, 'at' | 'record'>, line_width: number): string[] {
  const { user, model, upstream, protocol, path, status, route_rule } = record;
  const by = typeof route_rule === 'string' && route_rule !== 'default' ? ` by rule ${word(route_rule)}` : '';
  const where = typeof upstream === 'string' ? ` at ${word(upstream)}${by}` : '';
  const head = [
    formatTimestamp(at),
    word(status) ?? 'no answer',
    word(user) ?? 'unknown caller',
    // "none" says nothing: other APIs, and paths that nothing serves, are told by the path.
    `${word(model ?? (protocol === 'none' ? path : protocol)) ?? 'no model'}${where}`,
  ];
  return [
    ...wrapText(printable(head.join('  ')), line_width, '', INDENT),
    ...[endOf(record), ...remarksOf(record), measuresOf(record)]
      .filter((text) => text !== undefined)
      .flatMap((text) => wrapText(printable(text), line_width, INDENT, `${INDENT}  `)),
  ];
}

const REFUSED_BY = /^(access rule|policy|token group) (.+)$/s;

/** What refused it, or why it failed; `undefined` where it was served. */
function endOf(record: AuditRecord): string | undefined {
  const { error, aborted, status, upstream } = record;
  if (typeof error === 'string') return `${refusalOf(record)} (${word(error)})`;
  if (aborted === true) return 'the client went away';
  return Number(status ?? 0) >= 400 && typeof upstream === 'string' ? `${word(upstream)} answered so` : undefined;
}

/** The limit that refused a request: by the name of its rule, and who changed it at run time. */
function limitOf({ limits, spend_rule }: AuditRecord): string {
  const found = Array.isArray(limits) ? limits.find((limit) => limit?.rule === spend_rule) : undefined;
  const changes = found && describeChanges(found, { is_admin: true })?.replace(/\.$/, '');
  return `refused by limit ${word(spend_rule)}${changes ? `: ${changes}` : ''}`;
}

function refusalOf(record: AuditRecord): string {
  const { refused_by, spend_rule, stage, status } = record;
  if (typeof refused_by === 'string') {
    const [, kind, name] = REFUSED_BY.exec(refused_by) ?? [];
    return `refused by ${kind === undefined ? word(refused_by) : `${kind} ${word(name)}`}`;
  }
  if (typeof spend_rule === 'string') return limitOf(record);
  const verb = Number(status ?? 500) < 500 ? 'refused by' : 'failed in';
  return typeof stage === 'string' ? `${verb} stage ${word(stage)}` : verb.split(' ')[0]!;
}

function remarksOf({ shadow, losses, sends }: AuditRecord): string[] {
  const [held, lost] = [words(shadow), words(losses)];
  return [
    ...(held.length === 0 ? [] : [`in shadow mode: ${held.join(', ')}`]),
    ...(lost.length === 0 ? [] : [`translation: ${lost.join(', ')}`]),
    ...(typeof sends === 'number' && sends > 1 ? [`sent ${sends} times`] : []),
  ];
}

function measuresOf({ cost_usd, duration_ms, request_id }: AuditRecord): string {
  return [
    typeof cost_usd === 'number' ? `${formatUsd(usdToNano(cost_usd))} USD` : undefined,
    typeof duration_ms === 'number' ? `${duration_ms} ms` : undefined,
    request_id === undefined ? undefined : `id ${word(request_id)}`,
  ]
    .filter((part) => part !== undefined)
    .join(', ');
}
