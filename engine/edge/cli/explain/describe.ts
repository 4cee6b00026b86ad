import { basename } from 'node:path';
import { ERRORS } from '../../../base/contract/errors.ts';
import { DROP_REASONS } from '../../../base/contract/forwarding.ts';
import { formatUsd, usdToNano } from '../../../base/kit/money.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import { shownPath } from '../../../base/source/diagnostics/render.ts';
import type { ErrorClause, PipelineSpec, StageEntry } from '../../../base/source/spec.ts';
import type {
  Decision,
  DryRun,
  LimitStep,
  RuleStep,
  SentStep,
  StageStep,
  UpstreamStep,
} from '../../../pipeline/explain/dry-run.ts';
import { type EffectiveRule, RULE_TITLES } from '../../../pipeline/explain/rules.ts';
import {
  describeAmount,
  describeAttempt,
  describeDropped,
  describeReason,
  describeValue,
} from '../../../pipeline/explain/trace.ts';
import { apart, type Columns, formatMoment, formatTable, numbers, paragraph, tableOf, WIDTH } from '../output.ts';

const LISTS = { stages: 'Stages', on_error: 'On an error', finally: 'Finally' } as const;
type List = keyof typeof LISTS;
const LIST_NAMES = Object.keys(LISTS) as List[];

const guardOf = ({ when }: StageEntry) => (when === undefined ? 'always' : formatCondition(when));
const errorsOf = (entry: StageEntry | ErrorClause) => ('errors' in entry ? entry.errors : undefined);

export function pipelineData(pipeline: PipelineSpec, cwd: string) {
  const { name, version, summary, match, limits, file } = pipeline;
  const at = (position: { readonly file: string; readonly line: number }) => ({
    file: shownPath(position.file, cwd),
    line: position.line,
  });
  const entries = LIST_NAMES.flatMap((list) =>
    pipeline[list].map((entry: StageEntry | ErrorClause, i) => {
      const { definition, options, when, mode, fail_closed, timeout_seconds, position, chain = [] } = entry;
      return {
        ...{ list, order: i + 1, id: entry.id, stage: definition.name, version: definition.version },
        ...{ when: when ?? true, when_text: guardOf(entry), mode, fail_closed, timeout_seconds },
        ...('errors' in entry && { errors: entry.errors }),
        ...{ options, reads: definition.reads, reads_if_set: definition.readsIfSet, writes: definition.writes },
        ...{ raises: definition.raises, needs: definition.needs, terminal: definition.terminal },
        ...at(position),
        used_by: chain.map(at),
      };
    }),
  );
  return { pipeline: name, version, summary, match, limits, file: shownPath(file, cwd), entries };
}

const DETAIL = ' '.repeat(7);
const numbered = (number: number | string) => `${String(number).padStart(3)}  `;

function detail(label: string, items: readonly string[]): string[] {
  const indent = `${DETAIL}${label.padEnd(8)}`;
  return items.length === 0 ? [] : paragraph(items.join(', '), indent, ' '.repeat(indent.length));
}

function entryDetails(entry: StageEntry | ErrorClause, cwd: string): string[] {
  const { definition, options, fail_closed, timeout_seconds, chain = [] } = entry;
  const { reads, readsIfSet, writes, raises, needs } = definition;
  // JSON with spaces between its keys, where a long line may be broken.
  const pairs = Object.entries(options as object).map(([key, value]) => `${jsonText(key)}:${jsonText(value)}`);
  const details: readonly (readonly [label: string, items: readonly string[]])[] = [
    ['errors', errorsOf(entry) ?? []],
    ['options', pairs.length === 0 ? [] : [`{${pairs.join(', ')}}`]],
    ['reads', reads],
    ['if set', readsIfSet],
    ['writes', writes],
    ['raises', raises.length === Object.keys(ERRORS).length ? ['any error code'] : raises],
    ['may use', needs],
    [
      'limits',
      [
        ...(fail_closed ? [] : ['the request continues if it fails']),
        ...(timeout_seconds === undefined ? [] : [`at most ${timeout_seconds} s per hook`]),
      ],
    ],
  ];
  return [
    ...details.flatMap(([label, items]) => detail(label, items)),
    ...chain.toReversed().map(({ file, line }) => `${DETAIL}used by ${shownPath(file, cwd)}:${line}`),
  ];
}

function listLines(pipeline: PipelineSpec, list: List, cwd: string): string[] {
  const entries = pipeline[list];
  if (entries.length === 0) return [];
  const rows = entries.map((entry, i) => {
    const { id, definition, mode, position } = entry;
    const file = position.file === pipeline.file ? '' : basename(position.file);
    const runs = `${mode === 'shadow' ? 'shadow: ' : ''}${guardOf(entry)}`;
    return [String(i + 1), id, `${definition.name}@${definition.version}`, runs, `${file}:${position.line}`];
  });
  const columns = [...numbers('#'), 'ID', 'STAGE', { title: 'RUNS', kind: 'brief' } as const, 'LINE'];
  const [titles, ...lines] = formatTable(columns, rows, WIDTH - 2);
  return [
    ...(list === 'stages' ? [] : ['', LISTS[list]]),
    `  ${titles}`,
    ...entries.flatMap((entry, i) => [
      `  ${lines[i]}`,
      // The table may truncate the guard, which matters most.
      ...(lines[i]!.includes('…') ? detail('runs', [guardOf(entry)]) : []),
      ...entryDetails(entry, cwd),
    ]),
  ];
}

export function describePipeline(pipeline: PipelineSpec, cwd: string): string[] {
  const { name, version, summary, match, limits } = pipeline;
  const serves = `${match.methods.join(', ')} ${match.paths.join(', ')}`;
  const body = limits.body_bytes === undefined ? '' : `, bodies of up to ${limits.body_bytes} bytes`;
  return [
    `${name}, version ${version}: ${shownPath(pipeline.file, cwd)}`,
    ...paragraph(summary),
    ...paragraph(`Serves ${serves} (protocol ${match.protocol}${body}).`),
    '',
    ...LIST_NAMES.flatMap((list) => listLines(pipeline, list, cwd)),
  ];
}

export function describePipelines(pipelines: readonly PipelineSpec[]): string[] {
  const width = Math.max(...pipelines.map(({ name }) => name.length)) + 2;
  const marked = ({ id, when, mode }: StageEntry) =>
    `${id}${when === undefined ? '' : '?'}${mode === 'shadow' ? '~' : ''}`;
  const described = pipelines.flatMap((pipeline) => {
    const lists = LIST_NAMES.filter((list) => pipeline[list].length > 0).map(
      (list) => `${list === 'stages' ? '' : `${LISTS[list]}: `}${pipeline[list].map(marked).join(', ')}`,
    );
    return paragraph(lists.join('; '), pipeline.name.padEnd(width), ' '.repeat(width));
  });
  return [...described, '', '?: conditional; ~: in shadow mode. See also appscli explain NAME.'];
}

export function describeRules(rules: readonly EffectiveRule[]): string[] {
  const kinds = Object.entries(RULE_TITLES).map(([kind, title]) => ({
    title,
    own: rules.filter((rule) => rule.kind === kind),
  }));
  const blocks = kinds
    .filter(({ own }) => own.length > 0)
    .map(({ title, own }) => [
      title,
      ...own.flatMap(({ name, mode, effect, text, file, line }, index) => [
        ...paragraph(
          `${name}${mode === 'shadow' ? ' (shadow: only recorded)' : ''} ${effect}`,
          numbered(index + 1),
          '     ',
        ),
        ...(text === 'always' || text === 'otherwise' ? [] : paragraph(`when ${text}`, DETAIL, `${DETAIL}  `)),
        `${DETAIL}${file}:${line}`,
      ]),
    ]);
  return apart(blocks);
}

const NO_BREAK = '\u00a0';

const formatAt = (moment: Date) => formatMoment(moment);

function factLines(facts: readonly (readonly [path: string, value: unknown])[]): string[] {
  const texts = facts.map(([path, value]) => `${path} = ${describeValue(path, value, formatAt)}`);
  const lines = paragraph(texts.map((text) => text.replaceAll(' ', NO_BREAK)).join(', '), DETAIL);
  return texts.length === 0 ? [] : lines.map((line) => line.replaceAll(NO_BREAK, ' '));
}

function reasonLines({ reasons }: Decision): string[] {
  return reasons.flatMap((reason) =>
    paragraph(`${reason.held ? 'yes' : 'no'}: ${describeReason(reason, formatAt)}`, DETAIL, `${DETAIL}  `),
  );
}

const FATES = { runs: 'runs', unreached: 'is not reached', unknown: 'may run', skipped: 'is skipped' } as const;

/** Evaluated entries of a pipeline, with the facts that their guards read and that they wrote. */
export function stageLines(steps: readonly StageStep[]): string[] {
  const shown = steps.filter((step) => step.list !== 'on_error' || step.fate !== 'unreached');
  return [...Map.groupBy(shown, ({ list }) => list)].flatMap(([list, own]) =>
    own.flatMap(({ id, fate, mode, guard, missing, wrote, raised }, index) => {
      const is_shadow = fate === 'skipped' && mode === 'shadow' && guard?.held !== false;
      const where = list === 'stages' ? '' : ` (${list})`;
      return [
        `${numbered(index + 1)}${id} ${FATES[fate]}${is_shadow ? ', in shadow mode' : ''}${where}`,
        ...(guard === undefined ? [] : reasonLines(guard)),
        ...(missing === undefined
          ? []
          : paragraph(`unknown: it depends on ${missing.join(', ')}, which the audit log lacks`, DETAIL)),
        ...factLines(Object.entries(wrote)),
        ...(raised === undefined ? [] : paragraph(`${raised.code ?? 'fails'}: ${raised.message}`, DETAIL)),
      ];
    }),
  );
}

function ruleLines(steps: readonly RuleStep[]): string[] {
  const evaluated = steps.filter(({ after_decision }) => !after_decision);
  const rest = steps.length - evaluated.length;
  return [
    ...evaluated.flatMap((step, index) => {
      const state = `${step.held ? 'matches' : 'does not match'}${step.mode === 'shadow' ? ', in shadow mode' : ''}`;
      const title = `${step.name} ${state}${step.held ? `: ${step.effect}` : ''}`;
      return [...paragraph(title, numbered(index + 1), DETAIL), ...reasonLines(step)];
    }),
    ...(rest === 0 ? [] : [`     ${rest === 1 ? 'one later rule was' : `${rest} later rules were`} not evaluated`]),
  ];
}

function ofWhom({ scope, key }: LimitStep): string {
  return scope.includes('+') ? (JSON.parse(key) as string[]).join(' + ') : key;
}

function limitLines({ limits, past }: DryRun): string[] {
  const tables = [true, false].flatMap((is_usd) => {
    const some = limits.filter(({ unit }) => (unit === 'usd') === is_usd);
    return some.length === 0 ? [] : [limitTable(some, is_usd, past !== undefined)];
  });
  return [...apart(tables), ...limits.flatMap((limit) => changeLines(limit))];
}

function limitTable(limits: readonly LimitStep[], is_usd: boolean, is_past: boolean): string[] {
  const shown = (amount: number) => (is_usd ? formatUsd(usdToNano(amount)) : String(amount));
  const columns: Columns<LimitStep> = [
    ['LIMIT', ({ rule }) => rule],
    ['OF', ofWhom],
    ['PER', ({ window }) => (window === 'open' ? 'at-once' : window)],
    [is_usd ? 'USD' : 'MAX', ({ limit }) => shown(limit), 'number'],
    ['UNIT', ({ unit }) => (is_usd ? null : unit)],
    ['USED', ({ spent, reserved }) => shown(spent + reserved), 'number'],
    [is_past ? 'LIKELY' : 'NEEDED', ({ needed }) => shown(needed), 'number'],
    ['FITS', ({ room }) => (room ? 'yes' : 'NO')],
  ];
  return formatTable(...tableOf(columns, limits), WIDTH).map((line) => `  ${line}`);
}

function changeLines(limit: LimitStep): string[] {
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
  return paragraph(`${ofWhom(limit)}: ${sentences.join('; ')}`, DETAIL);
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

function shareOf({ order, weight, turn }: UpstreamStep, { upstreams, past }: DryRun): string {
  const sharing = upstreams.filter((step) => step.turn !== undefined && step.order === order);
  if (past === undefined || turn === undefined || sharing.length === 1) return '';
  const sum = sharing.reduce((all, step) => all + step.weight, 0);
  return ` (${sum === 0 ? 0 : Math.round((weight / sum) * 1000) / 10} % of the sessions)`;
}

function upstreamLines(run: DryRun): string[] {
  return run.upstreams.flatMap((step) => {
    const { upstream, turn, dropped, translated_into, cache_downgraded } = step;
    const text = [
      `${upstream}${shareOf(step, run)}`,
      ...(translated_into === undefined ? [] : [`translated into ${translated_into}`]),
      ...(cache_downgraded ? ['with a five-minute prompt cache'] : []),
    ].join(', ');
    const why = dropped === undefined ? '' : `: ${DROP_REASONS[dropped]} (${dropped})`;
    return paragraph(text + why, numbered(turn ?? '-'), DETAIL);
  });
}

function pastLines({ past }: DryRun): string[] {
  if (past === undefined) return [];
  return [
    ...paragraph(past.why, '  '),
    ...past.attempts.flatMap((attempt) => paragraph(describeAttempt(attempt), numbered(attempt.n), DETAIL)),
    ...past.dropped.flatMap((text) => paragraph(describeDropped(text), numbered('-'), DETAIL)),
  ];
}

function headLines({ past }: DryRun): string[] {
  if (past === undefined) return [];
  const { request_id, received_at, trace_id } = past;
  const head = `Request ${request_id} of ${received_at}, evaluated with the current rules. No stage runs, because the audit log has no body.`;
  return [...paragraph(head), ...(trace_id ? [`Trace: ${trace_id}`] : []), ''];
}

function answerLines({ answer }: DryRun): string[] {
  if (answer === undefined) return [];
  const { status, error, message } = answer;
  return [`  ${status}${error === undefined ? '' : ` ${error}`}`, ...(message === '' ? [] : paragraph(message, '  '))];
}

/** A dry run as text; `time_zone` is that of the days, weeks and months of limits. */
export function describeDryRun(run: DryRun, time_zone = 'UTC'): string[] {
  const { facts, limits, shadow, sent } = run;
  const rule = facts['route.rule'];
  const by = rule === undefined ? 'its pipeline' : rule === 'default' ? 'default' : `the rule ${String(rule)}`;
  const of_headers = Object.entries(facts).filter(([path]) => /^request\.(?:agent$|headers\.)/.test(path));
  const days = limits.some(({ unit }) => unit === 'usd') ? ` (days begin at midnight, ${time_zone})` : '';
  const section = (title: string, lines: readonly string[]) => (lines.length === 0 ? [] : ['', title, ...lines]);
  return [
    ...headLines(run),
    `Pipeline ${run.pipeline}`,
    ...factLines(of_headers),
    ...stageLines(run.stages),
    ...section('Routing rules', ruleLines(run.routing)),
    ...(facts['route.upstream'] === undefined ? [] : [`  -> upstream ${String(facts['route.upstream'])}, by ${by}`]),
    ...section('Upstreams, in order of attempts if all are healthy', upstreamLines(run)),
    ...section('What happened', pastLines(run)),
    ...section('Access rules', ruleLines(run.access)),
    ...section('Spend rules', ruleLines(run.spending)),
    ...section(`Limits${days}`, limitLines(run)),
    ...section(
      'Shadow rules that match',
      shadow.map((name) => `  ${name}`),
    ),
    ...section('Request to the upstream', sent === undefined ? [] : sentLines(sent)),
    ...section('Response of the gateway itself', answerLines(run)),
  ];
}
