import { DROP_REASONS } from '../../contract/forwarding.ts';
import type {
  Decision,
  DryRun,
  LimitStep,
  PastRequest,
  RuleStep,
  SentStep,
  StageStep,
  UpstreamStep,
} from '../../explain/dry-run.ts';
import {
  describeAmount,
  describeAttempt,
  describeDropped,
  describeReason,
  describeValue,
} from '../../explain/words.ts';
import { formatUsd, usdToNano } from '../../kit/money.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { formatTable } from '../table.ts';
import { formatMoment } from '../times.ts';

const DETAIL = ' '.repeat(7);

const formatAt = (moment: Date) => formatMoment(moment);
const shown = (path: string, value: unknown) => describeValue(path, value, formatAt);

const NO_BREAK = '\u00a0';
const inOnePiece = (text: string): string => text.replaceAll(' ', NO_BREAK);
const spaced = (text: string): string => text.replaceAll(NO_BREAK, ' ');

/** Why a condition holds or not, one line per comparison that decided. */
function reasonLines({ reasons }: Decision, line_width: number): string[] {
  return reasons.flatMap((reason) =>
    wrapText(`${reason.held ? 'yes' : 'no'}: ${describeReason(reason, formatAt)}`, line_width, DETAIL, `${DETAIL}  `),
  );
}

function formatFate({ fate, mode, guard }: StageStep): string {
  if (fate === 'runs') return 'runs';
  if (fate === 'unreached') return 'is not reached';
  if (fate === 'unknown') return 'may run';
  return mode === 'shadow' && guard?.held !== false ? 'is skipped, in shadow mode' : 'is skipped';
}

function stageLines(steps: readonly StageStep[], line_width: number): string[] {
  let order = 0;
  let list: StageStep['list'] = 'stages';
  return steps
    .filter((step) => step.list !== 'on_error' || step.fate !== 'unreached')
    .flatMap((step) => {
      if (step.list !== list) order = 0;
      list = step.list;
      order += 1;
      const where = step.list === 'stages' ? '' : ` (${step.list})`;
      const title = `${String(order).padStart(3)}  ${step.id} ${formatFate(step)}${where}`;
      const facts = Object.entries(step.wrote).map(([path, value]) => inOnePiece(`${path} = ${shown(path, value)}`));
      return [
        title,
        ...(step.guard === undefined ? [] : reasonLines(step.guard, line_width)),
        ...(step.missing === undefined
          ? []
          : wrapText(`it depends on ${step.missing.join(', ')}, not in the audit log`, line_width, DETAIL)),
        ...(facts.length === 0 ? [] : wrapText(facts.join(', '), line_width, DETAIL).map(spaced)),
        ...(step.raised === undefined
          ? []
          : wrapText(`${step.raised.code ?? 'fails'}: ${step.raised.message}`, line_width, DETAIL)),
      ];
    });
}

function ruleLines(steps: readonly RuleStep[], line_width: number): string[] {
  const asked = steps.filter(({ after_decision }) => !after_decision);
  const rest = steps.length - asked.length;
  return [
    ...asked.flatMap((step, i) => {
      const state = `${step.held ? 'holds' : 'does not hold'}${step.mode === 'shadow' ? ', in shadow mode' : ''}`;
      const title = `${step.name} ${state}${step.held ? `: ${step.effect}` : ''}`;
      const number = `${String(i + 1).padStart(3)}  `;
      return [...wrapText(title, line_width, number, DETAIL), ...reasonLines(step, line_width)];
    }),
    ...(rest === 0 ? [] : [`     ${rest === 1 ? 'one later rule is' : `${rest} later rules are`} not asked any more`]),
  ];
}

function ofWhom({ scope, key }: LimitStep): string {
  return scope.includes('+') ? (JSON.parse(key) as string[]).join(' + ') : key;
}

function amountOf(unit: LimitStep['unit'], amount: number): string {
  return unit === 'usd' ? formatUsd(usdToNano(amount)) : String(amount);
}

/** One table of limits in USD, one of those that count something else. */
function limitLines({ limits, past }: DryRun, line_width: number): string[] {
  const [in_usd, others] = [limits.filter(({ unit }) => unit === 'usd'), limits.filter(({ unit }) => unit !== 'usd')];
  const tables = [in_usd, others].filter((some) => some.length > 0).map((some) => limitTable(some, past, line_width));
  return [
    ...tables.flatMap((table, i) => (i === 0 ? table : ['', ...table])),
    ...limits.flatMap((limit) => changeLines(limit, line_width)),
  ];
}

/** Who set a limit, and who granted room on top of it. */
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

function limitTable(limits: readonly LimitStep[], past: DryRun['past'], line_width: number): string[] {
  const is_usd = limits[0]!.unit === 'usd';
  const rows = limits.map((limit) => {
    const { rule, window, unit } = limit;
    const shown = (amount: number) => amountOf(unit, amount);
    const per = is_usd ? window : window === 'open' ? 'at-once' : window;
    return [
      rule,
      ofWhom(limit),
      per,
      shown(limit.limit),
      ...(is_usd ? [] : [unit]),
      shown(limit.spent + limit.reserved),
      shown(limit.needed),
      limit.room ? 'yes' : 'NO',
    ];
  });
  return formatTable(
    [
      { title: 'LIMIT', kind: 'text' },
      { title: 'OF', kind: 'text' },
      { title: 'PER', kind: 'text' },
      { title: is_usd ? 'USD' : 'MOST', kind: 'number' },
      ...(is_usd ? [] : [{ title: 'UNIT', kind: 'text' } as const]),
      { title: 'USED', kind: 'number' },
      { title: past === undefined ? 'NEEDED' : 'LIKELY', kind: 'number' },
      { title: 'ROOM', kind: 'text' },
    ],
    rows,
    line_width - 2,
  ).map((line) => `  ${line}`);
}

function formatRewrites({ unchanged, rewrites }: SentStep): string {
  if (unchanged) return 'as they came';
  return rewrites.includes('*') ? 'written anew' : `with ${rewrites.join(', ')} rewritten`;
}

function sentLines(sent: SentStep): string[] {
  const { upstream, method, url, headers, body_bytes, sha256 } = sent;
  const body = `${body_bytes} bytes, ${formatRewrites(sent)}`;
  return [
    `  ${method} ${url} (upstream ${upstream})`,
    ...headers.map(([name, value]) => `  ${name}: ${value}`),
    `  body: ${body}`,
    `  SHA-256 ${sha256}`,
  ];
}

const numbered = (number: number | string) => `${String(number).padStart(3)}  `;

/** Share of the sessions, where several of one order can serve and nobody knows the session. */
function shareOf({ order, weight, turn }: UpstreamStep, { upstreams, past }: DryRun): string {
  const sharing = upstreams.filter((step) => step.turn !== undefined && step.order === order);
  if (past === undefined || turn === undefined || sharing.length === 1) return '';
  const sum = sharing.reduce((all, step) => all + step.weight, 0);
  return ` (${sum === 0 ? 0 : Math.round((weight / sum) * 1000) / 10} % of the sessions)`;
}

/** Where a request can go, in the order to be tried; then what is not asked, and why. */
function upstreamLines(run: DryRun, line_width: number): string[] {
  return run.upstreams.flatMap((step) => {
    const { upstream, turn, dropped, translated_into, cache_downgraded } = step;
    const changes = [
      ...(translated_into === undefined ? [] : [`translated into ${translated_into}`]),
      ...(cache_downgraded ? ['with a prompt cache of five minutes'] : []),
    ];
    const why = dropped === undefined ? '' : `: ${DROP_REASONS[dropped]} (${dropped})`;
    const text = `${[`${upstream}${shareOf(step, run)}`, ...changes].join(', ')}${why}`;
    return wrapText(text, line_width, numbered(turn ?? '-'), DETAIL);
  });
}

/** What became of a request: every attempt with its outcome and what followed, and what was not asked. */
function attemptLines({ attempts, dropped }: PastRequest, line_width: number): string[] {
  return [
    ...attempts.flatMap((attempt) => wrapText(describeAttempt(attempt), line_width, numbered(attempt.n), DETAIL)),
    ...dropped.flatMap((text) => wrapText(describeDropped(text), line_width, numbered('-'), DETAIL)),
  ];
}

/** What conditions see of the headers, which no stage has written. */
function headLines({ facts }: DryRun, line_width: number): string[] {
  const told = Object.entries(facts).filter(
    ([path]) => path === 'request.agent' || path.startsWith('request.headers.'),
  );
  if (told.length === 0) return [];
  const texts = told.map(([path, value]) => inOnePiece(`${path} = ${shown(path, value)}`));
  return wrapText(texts.join(', '), line_width, DETAIL).map(spaced);
}

/**
 * Lines: stages, rules, limits, and what would be sent or answered.
 * @param time_zone in which days, weeks and months of limits begin.
 */
export function describeDryRun(run: DryRun, line_width: number, time_zone = 'UTC'): string[] {
  const section = (title: string, lines: readonly string[]) => (lines.length === 0 ? [] : ['', title, ...lines]);
  const decided = run.facts['route.rule'];
  const by = decided === undefined ? 'its pipeline' : decided === 'default' ? 'default' : `the rule ${String(decided)}`;
  const past =
    run.past &&
    `The request ${run.past.request_id} of ${run.past.received_at}, by the rules as they are now. Nothing is run: the audit log keeps no body.`;
  const trace = run.past?.trace_id;
  return [
    ...(past === undefined ? [] : [...wrapText(past, line_width), ...(trace ? [`Its trace: ${trace}`] : []), '']),
    `Pipeline ${run.pipeline}`,
    ...headLines(run, line_width),
    ...stageLines(run.stages, line_width),
    ...section('Routing rules', ruleLines(run.routing, line_width)),
    ...(run.facts['route.upstream'] === undefined
      ? []
      : [`  -> upstream ${String(run.facts['route.upstream'])}, by ${by}`]),
    ...section('Upstreams, in the order to be tried if all of them work', upstreamLines(run, line_width)),
    ...(run.past === undefined
      ? []
      : section('What became of it then', [
          ...wrapText(run.past.why, line_width, '  '),
          ...attemptLines(run.past, line_width),
        ])),
    ...section('Access rules', ruleLines(run.access, line_width)),
    ...section('Spend rules', ruleLines(run.spending, line_width)),
    ...section(
      run.limits.some(({ unit }) => unit === 'usd') ? `Limits (days begin at midnight, ${time_zone})` : 'Limits',
      run.limits.length === 0 ? [] : limitLines(run, line_width),
    ),
    ...section(
      'Rules in shadow mode that would have acted',
      run.shadow.map((name) => `  ${name}`),
    ),
    ...(run.sent === undefined ? [] : section('Would be sent', sentLines(run.sent))),
    ...(run.answer === undefined
      ? []
      : section('Would be answered by the gateway itself', [
          `  ${run.answer.status}${run.answer.error === undefined ? '' : ` ${run.answer.error}`}`,
          ...(run.answer.message === '' ? [] : wrapText(run.answer.message, line_width, '  ')),
        ])),
  ];
}
