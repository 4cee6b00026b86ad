import { isEventStream } from '../kit/media-type.ts';
import { cameLine, errorText, sentLine } from './answer-lines.ts';
import type { SelfCheckOutcome } from './check.ts';
import { foreignAnswer } from './foreign-answers.ts';
import { type Answer, readAnswer } from './read-answer.ts';
import type { Ask, Subject } from './subject.ts';

/** A request that was answered. */
export interface Asked {
  readonly answer: Answer;
  /** What was sent and what came, a line each. */
  readonly travelled: { readonly sent: string; readonly came: string };
}

/** Sends a request and reads its answer. Rejects where none came. */
export async function askFor(subject: Subject, ask: Ask, note?: string): Promise<Asked> {
  const answer = await readAnswer(await subject.ask(ask));
  const { token: _, ...shown } = ask;
  return { answer, travelled: { sent: sentLine({ method: 'POST', ...shown }, note), came: cameLine(answer) } };
}

/** The outcome for an answer that is no JSON of any API; `undefined` for one that is. */
export function foreignOutcome({ answer, travelled }: Asked): SelfCheckOutcome | undefined {
  const foreign = foreignAnswer(answer);
  return foreign === undefined
    ? undefined
    : { verdict: 'failed', found: foreign.what, remedy: foreign.remedy, ...travelled };
}

/** The outcome for a whole answer in place of the stream that was asked for; `undefined` for a stream. */
export function notStreamed(asked: Asked): SelfCheckOutcome | undefined {
  if (isEventStream(asked.answer.headers['content-type'])) return undefined;
  return (
    foreignOutcome(asked) ?? {
      verdict: 'failed',
      found: 'a whole answer came although a stream was asked for',
      remedy: 'have the gateway pass "stream": true on to its upstream, and answer with text/event-stream',
      ...asked.travelled,
    }
  );
}

/** The outcome for a good request that was refused, in whatever form. */
export function refusedOutcome(asked: Asked): SelfCheckOutcome {
  const { answer, travelled } = asked;
  const foreign = foreignOutcome(asked);
  if (foreign !== undefined) return foreign;
  const error = errorText(answer.json);
  return {
    verdict: 'failed',
    found: `the request was refused with status ${answer.status}${error === undefined ? '' : `: ${error}`}`,
    remedy: remedyOfRefusal(answer.status),
    ...travelled,
  };
}

function remedyOfRefusal(status: number): string {
  if (status === 401 || status === 403) return 'is the token valid, and may it use this model?';
  if (status === 404) return 'name a model that the token may use with --model';
  if (status === 402) return 'raise the limit of the token, or check with another one';
  if (status === 429) return 'wait until there is room again, or check with a token that has a higher limit';
  if (status >= 500)
    return 'look into the logs of the gateway: does its upstream work, and does it have a credential for it?';
  return 'look into the logs of the gateway: the request is one that clients send';
}
