import { DROP_REASONS } from '../../../base/contract/forwarding.ts';
import { formatUsd, usdToNano } from '../../../base/kit/money.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import type {
  Decision,
  DryRun,
  LimitStep,
  RuleStep,
  SentStep,
  StageStep,
  UpstreamStep,
} from '../../../pipeline/explain/dry-run.ts';
import {
  describeAmount,
  describeAttempt,
  describeDropped,
  describeReason,
  describeValue,
} from '../../../pipeline/explain/words.ts';
import { type Column, formatTable } from '../table.ts';
import { formatMoment } from '../times.ts';

const DETAIL = ' '.repeat(7);
const NO_BREAK = '\u00a0';

const formatAt = (moment: Date) => formatMoment(moment);
const numbered = (number: number | string) => `${String(number).padStart(3)}  `;

/** Facts with their values; no fact is broken across lines. */
function factLines(facts: readonly (readonly [path: string, value: unknown])[], line_width: number): string[] {
  const texts = facts.map(([path, value]) => `${path} = ${describeValue(path, value, formatAt)}`);
  const lines = wrapText(texts.map((text) => text.replaceAll(' ', NO_BREAK)).join(', '), line_width, DETAIL);
  return texts.length === 0 ? [] : lines.map((line) => line.replaceAll(NO_BREAK, ' '));
}

/** The deciding comparisons of a condition, one per line. */
function reasonLines({ reasons }: Decision, line_width: number): string[] {
  return reasons.flatMap((reason) =>
    wrapText(`${reason.held ? 'yes' : 'no'}: ${describeReason(reason, formatAt)}`, line_width, DETAIL, `${DETAIL}  `),
  );
}

const FATES = { runs: 'runs', unreached: 'is not reached', unknown: 'may run', skipped: 'is skipped' } as const;

function stageLines(steps: readonly StageStep[], line_width: number): string[] {
  const shown = steps.filter((step) => step.list !== 'on_error' || step.fate !== 'unreached');
  const paragraph = (text: string) => wrapText(text, line_width, DETAIL);
  return [...Map.groupBy(shown, ({ list }) => list)].flatMap(([list, own]) =>
    own.flatMap(({ id, fate, mode, guard, missing, wrote, raised }, index) => {
      const is_shadow = fate === 'skipped' && mode === 'shadow' && guard?.held !== false;
      const where = list === 'stages' ? '' : ` (${list})`;
      return [
        `${numbered(index + 1)}${id} ${FATES[fate]}${is_shadow ? ', in shadow mode' : ''}${where}`,
        ...(guard === undefined ? [] : reasonLines(guard, line_width)),
        ...(missing === undefined
          ? []
          : paragraph(`unknown: it depends on ${missing.join(', ')}, which the audit log lacks`)),
        ...factLines(Object.entries(wrote), line_width),
        ...(raised === undefined ? [] : paragraph(`${raised.code ?? 'fails'}: ${raised.message}`)),
      ];
    }),
  );
}

function ruleLines(steps: readonly RuleStep[], line_width: number): string[] {
  const evaluated = steps.filter(({ after_decision }) => !after_decision);
  const rest = steps.length - evaluated.length;
  return [
    ...evaluated.flatMap((step, index) => {
      const state = `${step.held ? 'matches' : 'does not match'}${step.mode === 'shadow' ? ', in shadow mode' : ''}`;
      const title = `${step.name} ${state}${step.held ? `: ${step.effect}` : ''}`;
      return [...wrapText(title, line_width, numbered(index + 1), DETAIL), ...reasonLines(step, line_width)];
    }),
    ...(rest === 0 ? [] : [`     ${rest === 1 ? 'one later rule was' : `${rest} later rules were`} not evaluated`]),
  ];
}

function ofWhom({ scope, key }: LimitStep): string {
  return scope.includes('+') ? (JSON.parse(key) as string[]).join(' + ') : key;
}

/** A table of limits in USD, a table of other limits, and changes at run time. */
function limitLines({ limits, past }: DryRun, line_width: number): string[] {
  const tables = [true, false].flatMap((is_usd) => {
    const some = limits.filter(({ unit }) => (unit === 'usd') === is_usd);
    return some.length === 0 ? [] : [limitTable(some, is_usd, { is_past: past !== undefined, line_width })];
  });
  return [
    ...tables.flatMap((table, index) => (index === 0 ? table : ['', ...table])),
    ...limits.flatMap((limit) => changeLines(limit, line_width)),
  ];
}

function limitTable(
  limits: readonly LimitStep[],
  is_usd: boolean,
  { is_past, line_width }: { readonly is_past: boolean; readonly line_width: number },
): string[] {
  const shown = (amount: number) => (is_usd ? formatUsd(usdToNano(amount)) : String(amount));
  const columns: [title: string, kind: Column['kind'], cell: (limit: LimitStep) => string][] = [
    ['LIMIT', 'text', ({ rule }) => rule],
    ['OF', 'text', ofWhom],
    ['PER', 'text', ({ window }) => (window === 'open' && !is_usd ? 'at-once' : window)],
    [is_usd ? 'USD' : 'MAX', 'number', ({ limit }) => shown(limit)],
    ['UNIT', 'text', ({ unit }) => unit],
    ['USED', 'number', ({ spent, reserved }) => shown(spent + reserved)],
    [is_past ? 'LIKELY' : 'NEEDED', 'number', ({ needed }) => shown(needed)],
    ['FITS', 'text', ({ room }) => (room ? 'yes' : 'NO')],
  ];
  const columns_shown = columns.filter(([title]) => title !== 'UNIT' || !is_usd);
  const rows = limits.map((limit) => columns_shown.map(([, , cell]) => cell(limit)));
  const titles = columns_shown.map(([title, kind]) => ({ title, kind }));
  return formatTable(titles, rows, line_width - 2).map((line) => `  ${line}`);
}

/** Changes of a limit at run time. */
function changeLines(limit: LimitStep, line_width: number): string[] {
  const { changed, unit } = limit;
  if (changed === undefined) return [];
  const { set, grants } = changed;
  const sentences = [
    ...(set === null ? [] : [`set at run time by ${set.by}, ${formatMoment(set.at)}`]),
    ...grants.map(
      ({ amount, at, by, expires_at }) =>
        `${describeAmount(unit, amount)} granted by ${by}, ${formatMoment(at)}, until ${formatMoment(expires_at)}`,
    ),
  ];
  return wrapText(`${ofWhom(limit)}: ${sentences.join('; ')}`, line_width, DETAIL);
}

function sentLines({ upstream, method, url, headers, body_bytes, sha256, unchanged, rewrites }: SentStep): string[] {
  const rewritten = rewrites.includes('*') ? 'serialised again' : `with ${rewrites.join(', ')} rewritten`;
  return [
    `${method} ${url} (upstream ${upstream})`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
    `body: ${body_bytes} bytes, ${unchanged ? 'unchanged' : rewritten}`,
    `SHA-256 ${sha256}`,
  ].map((line) => `  ${line}`);
}

/** Share of sessions, if several upstreams of one order can serve an unknown session. */
function shareOf({ order, weight, turn }: UpstreamStep, { upstreams, past }: DryRun): string {
  const sharing = upstreams.filter((step) => step.turn !== undefined && step.order === order);
  if (past === undefined || turn === undefined || sharing.length === 1) return '';
  const sum = sharing.reduce((all, step) => all + step.weight, 0);
  return ` (${sum === 0 ? 0 : Math.round((weight / sum) * 1000) / 10} % of the sessions)`;
}

/** Candidate upstreams in order, then excluded ones with their reasons. */
function upstreamLines(run: DryRun, line_width: number): string[] {
  return run.upstreams.flatMap((step) => {
    const { upstream, turn, dropped, translated_into, cache_downgraded } = step;
    const text = [
      `${upstream}${shareOf(step, run)}`,
      ...(translated_into === undefined ? [] : [`translated into ${translated_into}`]),
      ...(cache_downgraded ? ['with a five-minute prompt cache'] : []),
    ].join(', ');
    const why = dropped === undefined ? '' : `: ${DROP_REASONS[dropped]} (${dropped})`;
    return wrapText(text + why, line_width, numbered(turn ?? '-'), DETAIL);
  });
}

/** What happened to a past request: its attempts and their outcomes, and excluded upstreams. */
function pastLines({ past }: DryRun, line_width: number): string[] {
  if (past === undefined) return [];
  return [
    ...wrapText(past.why, line_width, '  '),
    ...past.attempts.flatMap((attempt) => wrapText(describeAttempt(attempt), line_width, numbered(attempt.n), DETAIL)),
    ...past.dropped.flatMap((text) => wrapText(describeDropped(text), line_width, numbered('-'), DETAIL)),
  ];
}

/** The heading of a past request. */
function headLines({ past }: DryRun, line_width: number): string[] {
  if (past === undefined) return [];
  const { request_id, received_at, trace_id } = past;
  const head = `Request ${request_id} of ${received_at}, evaluated with the current rules. No stage runs, because the audit log has no body.`;
  return [...wrapText(head, line_width), ...(trace_id ? [`Trace: ${trace_id}`] : []), ''];
}

function answerLines({ answer }: DryRun, line_width: number): string[] {
  if (answer === undefined) return [];
  const { status, error, message } = answer;
  return [
    `  ${status}${error === undefined ? '' : ` ${error}`}`,
    ...(message === '' ? [] : wrapText(message, line_width, '  ')),
  ];
}

/**
 * A dry run as text: stages, rules, limits, and the request to the upstream or the gateway's own response.
 * @param time_zone of the days, weeks and months of limits.
 */
export function describeDryRun(run: DryRun, line_width: number, time_zone = 'UTC'): string[] {
  const { facts, limits, shadow, sent } = run;
  const rule = facts['route.rule'];
  const by = rule === undefined ? 'its pipeline' : rule === 'default' ? 'default' : `the rule ${String(rule)}`;
  // Header facts that conditions use; no stage writes them.
  const of_headers = Object.entries(facts).filter(([path]) => /^request\.(?:agent$|headers\.)/.test(path));
  const days = limits.some(({ unit }) => unit === 'usd') ? ` (days begin at midnight, ${time_zone})` : '';
  const section = (title: string, lines: readonly string[]) => (lines.length === 0 ? [] : ['', title, ...lines]);
  return [
    ...headLines(run, line_width),
    `Pipeline ${run.pipeline}`,
    ...factLines(of_headers, line_width),
    ...stageLines(run.stages, line_width),
    ...section('Routing rules', ruleLines(run.routing, line_width)),
    ...(facts['route.upstream'] === undefined ? [] : [`  -> upstream ${String(facts['route.upstream'])}, by ${by}`]),
    ...section('Upstreams, in order of attempts if all are healthy', upstreamLines(run, line_width)),
    ...section('What happened', pastLines(run, line_width)),
    ...section('Access rules', ruleLines(run.access, line_width)),
    ...section('Spend rules', ruleLines(run.spending, line_width)),
    ...section(`Limits${days}`, limitLines(run, line_width)),
    ...section(
      'Shadow rules that match',
      shadow.map((name) => `  ${name}`),
    ),
    ...section('Request to the upstream', sent === undefined ? [] : sentLines(sent)),
    ...section('Response of the gateway itself', answerLines(run, line_width)),
  ];
}
