/**
 * Errors as servers send them: status and body, with what they mean. Bodies are those of the servers' own code, of their documents and
 * of public reports; each is a line of `upstream-errors.jsonl`.
 * @module
 */
import { readFileSync } from 'node:fs';
import type { Meaning } from '../../engine/domain/protocols/read-error.ts';

/** An error of a server. */
export interface ServerError {
  readonly server: string;
  readonly status: number;
  /** JSON, or the text of a body that is none. */
  readonly body: object | string;
  /** What a client is told of it at least. */
  readonly says: string;
}

type Row = ServerError & { readonly list: string; readonly means: Meaning };

const ROWS = readFileSync(new URL('./upstream-errors.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Row);

const listed = (list: string): readonly Row[] => ROWS.filter((row) => row.list === list);

/** Conversations that are too long. */
export const FULL_CONTEXTS: readonly ServerError[] = listed('full_contexts');
/** Errors that look like a conversation that is too long, and are none. */
export const FALSE_FRIENDS: readonly (ServerError & { readonly means?: Meaning })[] = listed('false_friends');
/** Other meanings, which decide where a request goes next. */
export const OTHER_MEANINGS = listed('other_meanings');
/** Reasons in shapes of their own. */
export const REASONS: readonly ServerError[] = listed('reasons');
