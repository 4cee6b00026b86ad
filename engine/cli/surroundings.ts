import type { Fetch } from '../client/http.ts';
import type { Clock } from '../contract/services.ts';
import { printableLines } from '../kit/text/printable.ts';
import { hint } from './program-name.ts';
import type { Terminal } from './terminal.ts';

/** What commands that talk to a gateway are given beyond their options; tests put theirs in its place. */
export interface Surroundings {
  readonly fetch?: Fetch;
  readonly clock?: Clock;
}

/** Tells a person something on the side. */
export function warner(terminal: Terminal): (message: string) => void {
  return (message) => terminal.info(printableLines([`appscli: ${hint(terminal, message)}`]));
}
