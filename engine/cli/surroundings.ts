import type { Fetch } from '../client/http.ts';
import { printableLines } from '../diagnostics/printable.ts';
import type { Clock } from '../stage-services.ts';
import type { Terminal } from './terminal.ts';

/** What commands that talk to a gateway are given beyond their options; tests put theirs in its place. */
export interface Surroundings {
  readonly fetch?: Fetch;
  readonly clock?: Clock;
}

/** Tells a person something on the side. */
export function warner(terminal: Terminal): (words: string) => void {
  return (words) => terminal.words(printableLines([`appscli: ${words}`]));
}
