import type { LiveCheck } from '../../doctor/host/live/live-check.ts';
import { printable } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';

const WIDTH = 80;
const STATE_WIDTH = 8;
const NO_BREAK = '\u00a0';
const GREEN = 32;
const RED = 31;

/** Live checks as lines for people, or as workflow commands for what is wrong with them. */
export function renderLive(
  checks: readonly LiveCheck[],
  options: { readonly format: 'text' | 'github'; readonly color: boolean },
): string {
  if (options.format === 'github') return checks.flatMap(renderGithub).join('');
  const width = Math.max(...checks.map(({ name }) => name.length));
  return checks.map((check) => renderText(check, width, options.color)).join('');
}

function renderText(check: LiveCheck, width: number, color: boolean): string {
  const { name, ok, what, help, warnings = [], notes = [], duration_ms, way } = check;
  const state = (ok ? 'ok' : 'failed').padEnd(STATE_WIDTH);
  const painted = color ? `\x1b[${ok ? GREEN : RED};1m${state}\x1b[0m` : state;
  const indent = ' '.repeat(STATE_WIDTH + width + 2);
  const how = `(${duration_ms} ms${way === undefined ? '' : `, ${printable(way)}`})`;
  // What is in brackets stays on one line.
  const said = wrapText(`${printable(what)} ${how.replaceAll(' ', NO_BREAK)}`, WIDTH, indent);
  const [first = '', ...rest] = said.map((line) => line.replaceAll(NO_BREAK, ' '));
  const more = [
    ...(help === undefined ? [] : [`help: ${help}`]),
    ...warnings.map((text) => `warning: ${text}`),
    ...notes.map((text) => `note: ${text}`),
  ];
  const lines = more.flatMap((text) => wrapText(printable(text), WIDTH, indent));
  return [`${painted}${name.padEnd(width)}  ${first.trimStart()}`, ...rest, ...lines]
    .map((line) => `${line}\n`)
    .join('');
}

function renderGithub({ name, ok, what, help, warnings = [] }: LiveCheck): string[] {
  const failure = ok
    ? []
    : [`error title=live::${escaped(`${name}: ${what}${help === undefined ? '' : `; ${help}`}`)}`];
  const doubts = warnings.map((text) => `warning title=live::${escaped(`${name}: ${text}`)}`);
  return [...failure, ...doubts].map((command) => `::${command}\n`);
}

function escaped(text: string): string {
  return printable(text).replaceAll('%', '%25').replaceAll('\n', '%0A');
}
