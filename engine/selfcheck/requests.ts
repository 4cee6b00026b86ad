import type { Protocol } from '../contract/protocol.ts';
import { isEventStream } from '../kit/media-type.ts';
import { errorText, type Fields, fieldsOf } from './answer.ts';
import { APIS } from './apis.ts';
import { type Asked, foreignOutcome, refusedOutcome, type SelfCheckOutcome, type Subject } from './check.ts';

/** A prompt with a short answer. */
export const PROMPT = 'Reply with the single word OK.';

/** Tokens of a request with it, at most, in every tokeniser; and of its answer. Some models refuse a lower bound. */
export const SHORT = { input: 60, output: 16 } as const;

/** A short request of the protocol. */
export function requestOf(
  { model }: Pick<Subject, 'model'>,
  protocol: Protocol,
  prompt = PROMPT,
  most: number = SHORT.output,
): Fields {
  return { model, ...APIS[protocol].request(prompt, most) };
}

/** The outcome where a protocol other than Messages is not served, which it need not be. `undefined` where it is, as far as the answer tells. */
export function notServed(asked: Asked, protocol: Protocol): SelfCheckOutcome | undefined {
  const { answer, travelled } = asked;
  if (protocol === 'messages' || ![404, 405, 501].includes(answer.status)) return undefined;
  const is_text = /^text\/plain\b/.test(answer.headers['content-type'] ?? '');
  if (!is_text && foreignOutcome(asked) !== undefined) return undefined;
  const { what, clients } = APIS[protocol];
  const says = errorText(answer.json);
  const is_about_model =
    fieldsOf(fieldsOf(answer.json).error).code === 'model_not_found' || /\bmodel\b/i.test(says ?? '');
  return {
    verdict: 'skipped',
    found: `${what} are not served for this${is_about_model ? ' model' : ''}: status ${answer.status}${says === undefined ? '' : `: ${says}`}; ${clients} can't use it here`,
    ...travelled,
  };
}

/** The outcome where no whole stream came although one was asked for; `undefined` for one. */
export function notStreamed(asked: Asked): SelfCheckOutcome | undefined {
  const { answer, travelled } = asked;
  const { fault } = answer;
  if (answer.status === 200 && isEventStream(answer.headers['content-type'])) {
    if (fault === undefined) return undefined;
    const seconds = (answer.total_ms / 1000).toFixed(1);
    return {
      ...foreignOutcome(asked)!,
      found:
        fault === 'cut'
          ? `the stream broke off after ${seconds} seconds`
          : `the stream did not end as it should after ${seconds} seconds`,
    };
  }
  return (
    refusedOutcome(asked) ?? {
      verdict: 'failed',
      found: 'a whole answer came although a stream was asked for',
      remedy: 'have the gateway stream where "stream" is true, and proxies leave content-type as it is',
      ...travelled,
    }
  );
}
