import { ATTEMPT_REASONS, type AttemptRecord } from '../../../base/contract/forwarding.ts';
import type { FactView } from '../../../base/contract/services.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import { factsSeen, traceCondition } from '../../../base/rules/trace.ts';
import { shownPath } from '../../../base/source/diagnostics/render.ts';
import type { FileCoverage, Point } from '../../simulate/suite/coverage.ts';
import type { Played } from '../../simulate/suite/played.ts';
import type { CaseResult, Problem } from '../../simulate/suite/suite.ts';
import type { StageTrace } from '../../simulate/suite/watch.ts';
import { counted } from '../amounts.ts';

const WIDTH = 80;
const LONGEST_ID = 20;

type Paint = (text: string, style: 'good' | 'bad' | 'faint' | 'strong') => string;

const STYLES = { good: 32, bad: 31, faint: 2, strong: 1 } as const;

/** Colours for a terminal, or none. */
export function painter(color: boolean): Paint {
  return (text, style) => (color ? `\x1b[${STYLES[style]}m${text}\x1b[0m` : text);
}

/** The path of an expectation, such as `expect.json.error.type`. */
function pathOf(pointer: string): string {
  const tokens = pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
  return ['expect', ...tokens].join('.').replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]');
}

/** A labelled text, wrapped. */
function labelled(label: string, text: string): string[] {
  const indent = ' '.repeat(6 + label.length + 2);
  return wrapText(text, WIDTH, `${' '.repeat(6)}${label}  `, indent);
}

function describeProblem(problem: Problem, several: boolean, cwd: string, paint: Paint): string[] {
  const { pointer, position, step, expected, found } = problem;
  const where = `${shownPath(position.file, cwd)}:${position.line}`;
  const what = pointer === '' ? 'every request' : pathOf(pointer);
  return [
    `    ${where}  ${what}${several ? ` (request ${step + 1})` : ''}`,
    ...labelled(paint('expected', 'good'), expected),
    ...labelled(paint('found   ', 'bad'), found),
  ];
}

function describeAttempt({ n, upstream, outcome, status, reason }: AttemptRecord): string[] {
  const how = status === null ? outcome : `${outcome} (status ${status})`;
  return wrapText(`attempt ${n}: ${upstream}, ${how}; ${ATTEMPT_REASONS[reason]}`, WIDTH, '      ', '        ');
}

function describePlayed(played: Played, paint: Paint): string[] {
  const { response, calls, attempts, log } = played;
  const stages = traceStages(played);
  const width = Math.min(LONGEST_ID, Math.max(0, ...stages.map(({ id }) => id.length)));
  const indent = ' '.repeat(6 + width + 2);
  const lines = stages.flatMap(({ id, state, details }) => [
    ...wrapText(state, WIDTH, `      ${id.padEnd(width)}  `, indent),
    ...details.flatMap((detail) => wrapText(detail, WIDTH, indent, `${indent}  `)).map((line) => paint(line, 'faint')),
  ]);
  const sent = calls.map(({ upstream, method, url }) => `${method} ${url} to ${upstream}`).join(', ');
  const got = response === undefined ? 'nothing' : `${response.status} ${shorten(response.body.toString())}`;
  return [
    ...lines,
    ...wrapText(`sent: ${sent || 'nothing'}`, WIDTH, '      '),
    ...(attempts.length > 1 || attempts[0]?.reason !== 'served' ? attempts.flatMap(describeAttempt) : []),
    ...wrapText(`client got: ${got}`, WIDTH, '      ', '        '),
    ...log.flatMap(({ message, reason }) =>
      wrapText(`log: ${message}${reason ? `: ${reason}` : ''}`, WIDTH, '      ', '        '),
    ),
  ];
}

/** A minimal successful response of an upstream, by its protocol. */
const ANSWERS: Readonly<Record<string, string>> = {
  messages: '{ type: message, content: [], usage: { input_tokens: 10, output_tokens: 5 } }',
  chat: '{ object: chat.completion, choices: [], usage: { prompt_tokens: 10, completion_tokens: 5 } }',
  responses: '{ object: response, output: [], usage: { input_tokens: 10, output_tokens: 5 } }',
  count_tokens: '{ input_tokens: 10 }',
};

/** A hint for a case that reached an upstream without a scripted response. */
export function silenceOf({ calls, is_unscripted, facts }: Played): string | undefined {
  const [call] = calls;
  if (call === undefined || !is_unscripted) return undefined;
  const protocol = String((facts.request as FactView | undefined)?.protocol);
  const asked_in = String((facts.route as FactView | undefined)?.protocol ?? protocol);
  const answer = ANSWERS[protocol === 'count_tokens' ? protocol : asked_in] ?? '{ ... }';
  return `this case has no \`upstream:\`, so ${call.upstream} returned 200 with an empty body; to script its response, add for example upstream: { json: ${answer} }`;
}

function describeSilence(played: Played): string[] {
  const text = silenceOf(played);
  return text === undefined ? [] : wrapText(text, WIDTH, '    ', '      ');
}

/** A failed case: expected and found values, and a trace of its requests. */
export function describeFailure({ name, problems, played }: CaseResult, cwd: string, paint: Paint): string[] {
  const several = played.length > 1;
  const failed = [...new Set(problems.map(({ step }) => step))].filter((step) => played[step] !== undefined);
  return [
    '',
    ...wrapText(name, WIDTH, '  ').map((line) => paint(line, 'strong')),
    ...problems.flatMap((problem) => describeProblem(problem, several, cwd, paint)),
    ...failed.flatMap((step) => describeSilence(played[step]!)),
    ...failed.flatMap((step) => [
      `    ${several ? `what happened on request ${step + 1}` : 'what happened'}`,
      ...describePlayed(played[step]!, paint),
    ]),
  ];
}

/** One line about a file: number of cases, or of failed ones. */
export function describeFile(file: string, cases: number, failed: number, paint: Paint): string {
  const mark = failed === 0 ? paint('ok  ', 'good') : paint('FAIL', 'bad');
  const result = failed === 0 ? counted(cases, 'case') : `${failed} of ${counted(cases, 'case')} failed`;
  return `${mark}  ${file}${' '.repeat(Math.max(2, WIDTH - 6 - file.length - result.length))}${result}`;
}

/** Notes about stages that tried to use the network, which tests block. */
export function describeRefused(cases: readonly CaseResult[], paint: Paint): string[] {
  const refused = cases.flatMap(({ played }) => played.flatMap((each) => each.refused));
  const notes = new Set(refused.map(({ stage, destination }) => `${stage} tried to reach ${destination}`));
  return [...notes].flatMap((note) =>
    wrapText(`note: ${note}; tests block the network`, WIDTH, '      ', '        ').map((line) => paint(line, 'faint')),
  );
}

function unseenOf({ outcomes }: Point): string[] {
  return [...outcomes].flatMap(([outcome, seen]) => (seen ? [] : outcome));
}

/** Coverage of each file, with uncovered decisions and their lines. */
export function describeCoverage(files: readonly FileCoverage[], percent: number, cwd: string, paint: Paint): string[] {
  const lines = files.flatMap(({ file, seen, total, points }) => {
    const shown = shownPath(file, cwd);
    const share = `${seen} of ${total}`;
    const unseen = points.flatMap((point) => {
      const never = unseenOf(point);
      if (never.length === 0) return [];
      const what = point.kind === 'on_error' ? `on_error ${point.name}` : `${point.kind} ${point.name}`;
      return wrapText(`${what}: never ${never.join(' or ')}`, WIDTH, `  line ${point.position.line}  `, '    ');
    });
    const head = `${shown}${' '.repeat(Math.max(2, WIDTH - shown.length - share.length))}${share}`;
    return [paint(head, seen === total ? 'good' : 'bad'), ...unseen];
  });
  return ['', paint('Decision coverage', 'strong'), ...lines, `${percent} % in all`];
}

const VALUE_CHARACTERS = 50;
const TEXT_CHARACTERS = 300;

function shorten(text: string, most = TEXT_CHARACTERS): string {
  const line = text.replaceAll(/\s*\n\s*/g, ' ');
  return line.length > most ? `${line.slice(0, most)}...` : line;
}

function briefly(value: unknown): string {
  return value === undefined ? 'not set' : shorten(jsonText(value), VALUE_CHARACTERS);
}

/** A guard's condition, result, and values. */
function explainGuard({ entry, guard }: StageTrace): string[] {
  if (guard === undefined || entry.when === undefined) return [];
  const seen = new Map(factsSeen(traceCondition(entry.when, guard.facts)));
  return [
    `when ${formatCondition(entry.when)}: ${guard.held}`,
    ...[...seen].map(([path, value]) => `${path} is ${briefly(value)}`),
  ];
}

function stageState({ entry, ran, guard, raised, answered }: StageTrace): string {
  if (raised !== undefined) return `raised ${raised.code ?? 'an error'}: ${raised.message}`;
  if (answered?.kind === 'relay') return `forwarded the upstream's response, status ${answered.status}`;
  if (answered !== undefined) return `responded with status ${answered.status}`;
  if (ran) return 'ran';
  if (guard?.held === false) return 'skipped';
  if (entry.mode === 'shadow' && guard !== undefined) return 'matched, in shadow mode';
  return 'not reached';
}

/** A stage in a trace. */
interface TracedStage {
  readonly id: string;
  readonly state: string;
  readonly details: readonly string[];
}

/** The trace of a pipeline's stages, without clauses that had no effect. */
export function traceStages({ trace }: Played): TracedStage[] {
  const stages = (trace?.stages ?? []).filter(
    ({ list, ran, guard }) => list === 'stages' || ran || guard !== undefined,
  );
  return stages.map((stage) => ({
    id: stage.entry.id,
    state: stageState(stage),
    details: [
      ...explainGuard(stage),
      ...(stage.wrote.size === 0
        ? []
        : [`wrote ${[...stage.wrote].map(([path, value]) => `${path} ${briefly(value)}`).join(', ')}`]),
    ],
  }));
}
