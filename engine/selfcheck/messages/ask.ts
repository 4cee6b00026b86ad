import { cameLine, sentLine } from '../answer-lines.ts';
import type { SelfCheck, SelfCheckOutcome } from '../check.ts';
import { type Answer, readAnswer } from '../read-answer.ts';
import type { Ask, Subject } from '../subject.ts';

/** A question that takes one word to answer. */
export const SHORT_QUESTION = 'Answer with the single word: pong';

/** Tokens of a request with the short question, at most, in every tokeniser; and of its answer. */
export const SHORT = { input: 40, output: 16 };

const MESSAGES_PATH = '/v1/messages';

/** What the real clients take; so a proxy that compresses streams does it here, too. */
export const CLIENT_HEADERS = { 'accept-encoding': 'gzip, deflate, br, zstd' };

/** A body of the Messages API with the short question, and what a check changes about it. */
export function shortBody(subject: Pick<Subject, 'model'>, changes: object = {}): Record<string, unknown> {
  return {
    model: subject.model,
    max_tokens: SHORT.output,
    messages: [{ role: 'user', content: SHORT_QUESTION }],
    ...changes,
  };
}

/** An answer that can be read, with what travelled in lines. */
export interface Asked {
  readonly answer: Answer;
  readonly sent: string;
  readonly came: string;
}

/** Asks, and reads what comes; `note` says what is special about the request. */
export async function askAndRead(subject: Pick<Subject, 'ask'>, ask: Ask, note?: string): Promise<Asked> {
  const headers = { ...CLIENT_HEADERS, ...ask.headers };
  const answer = await readAnswer(await subject.ask({ ...ask, headers }));
  return { answer, sent: sentLine(ask, note), came: cameLine(answer) };
}

/** Asks the Messages API. */
export function askMessages(
  subject: Pick<Subject, 'ask'>,
  json: unknown,
  { note, ...more }: Partial<Ask> & { readonly note?: string } = {},
): Promise<Asked> {
  return askAndRead(subject, { path: MESSAGES_PATH, json, ...more }, note);
}

/** What was found, with what travelled. */
export function outcome({ sent, came }: Asked, found: Omit<SelfCheckOutcome, 'sent' | 'came'>): SelfCheckOutcome {
  return { ...found, sent, came };
}

/** For checks that ask a model. */
export const needsModel: NonNullable<SelfCheck['skipped']> = ({ model }) =>
  model === undefined ? 'no model to ask: the gateway lists none that can be read; name one with --model' : undefined;
