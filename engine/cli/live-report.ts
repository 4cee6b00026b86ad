import { printable } from '../diagnostics/printable.ts';
import type { LiveCheck } from './live.ts';

const STATE_WIDTH = 8;
const GREEN = 32;
const RED = 31;

/** Live checks as lines for people, or as workflow commands for those that failed. */
export function renderLive(
  checks: readonly LiveCheck[],
  options: { readonly format: 'text' | 'github'; readonly color: boolean },
): string {
  if (options.format === 'github')
    return checks
      .filter(({ ok }) => !ok)
      .map(renderGithub)
      .join('');
  const width = Math.max(...checks.map(({ name }) => name.length));
  return checks.map((check) => renderText(check, width, options.color)).join('');
}

function renderText({ name, ok, what, help, duration_ms }: LiveCheck, width: number, color: boolean): string {
  const state = (ok ? 'ok' : 'failed').padEnd(STATE_WIDTH);
  const painted = color ? `\x1b[${ok ? GREEN : RED};1m${state}\x1b[0m` : state;
  const line = `${painted}${name.padEnd(width)}  ${printable(what)} (${duration_ms} ms)\n`;
  return help === undefined ? line : `${line}${' '.repeat(STATE_WIDTH + width + 2)}help: ${printable(help)}\n`;
}

function renderGithub({ name, what, help }: LiveCheck): string {
  const text = `${name}: ${what}${help === undefined ? '' : `; ${help}`}`;
  return `::error title=live::${printable(text).replaceAll('%', '%25').replaceAll('\n', '%0A')}\n`;
}
