import type { CheckOutcome } from '../../contract/checks.ts';
import { APIS, CLIENTS_TAKE } from '../apis.ts';
import { type Asked, askFor } from '../asked.ts';
import type { SelfCheckOutcome } from '../check.ts';
import type { Ask, Subject } from '../subject.ts';

/** A question that takes one word to answer. */
export const SHORT_QUESTION = 'Answer with the single word: pong';

/** Tokens of a request with the short question, at most, in every tokeniser; and of its answer. */
export const SHORT = { input: 30, output: 16 };

/** A body of the Messages API with the short question, and what a check changes about it. */
export function shortBody(subject: Pick<Subject, 'model'>, changes: object = {}): Record<string, unknown> {
  return {
    model: subject.model,
    max_tokens: SHORT.output,
    messages: [{ role: 'user', content: SHORT_QUESTION }],
    ...changes,
  };
}

/** Asks as clients do, and reads what comes; `note` says what is special about the request. */
export function askAsClient(subject: Subject, ask: Ask, note?: string): Promise<Asked> {
  const method = ask.method ?? (ask.json === undefined ? 'GET' : 'POST');
  const token_note =
    ask.token === undefined ? undefined : ask.token === null ? 'without a token' : 'with a wrong token';
  const notes = [note, token_note].filter((each) => each !== undefined).join(', ');
  return askFor(subject, { ...ask, method, headers: { ...CLIENTS_TAKE, ...ask.headers } }, notes || undefined);
}

/** Asks the Messages API. */
export function askMessages(
  subject: Subject,
  json: unknown,
  { note, ...more }: Partial<Ask> & { readonly note?: string } = {},
): Promise<Asked> {
  return askAsClient(subject, { path: APIS.messages.path, json, ...more }, note);
}

/** What was found, with what travelled. */
export function outcome({ travelled }: Asked, found: CheckOutcome): SelfCheckOutcome {
  return { ...found, ...travelled };
}
