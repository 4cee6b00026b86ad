/**
 * Errors as servers send them: status and body, with their meaning. Bodies are those of the servers' own code, of their documents and
 * of public reports; each is a line of `upstream-errors.jsonl`.
 */
import { readFileSync } from 'node:fs';
import type { Meaning } from '../../engine/domain/protocols/read-error.ts';

/** An error of a server. */
export interface ServerError {
  readonly server: string;
  readonly status: number;
  /** JSON, or the text of a body that is none. */
  readonly body: object | string;
  /** What a client sees of it at least. */
  readonly says: string;
  readonly means?: Meaning;
}

/** What there is of one kind: conversations that are too long, what only looks like it, other meanings, and reasons in shapes of their own. */
type List = 'full_contexts' | 'false_friends' | 'other_meanings' | 'reasons';

export const SERVER_ERRORS = readFileSync(new URL('./upstream-errors.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as ServerError & { readonly list: List });

/** Conversations that are too long. */
export const FULL_CONTEXTS = SERVER_ERRORS.filter(({ list }) => list === 'full_contexts');
