import { StageError } from '../../contract/errors.ts';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';
import { isEventStream, isPlain } from '../../kit/media-type.ts';
import { retryAfterSeconds } from '../../kit/retry-after.ts';
import { meaningOf } from '../../protocols/error-meanings.ts';
import { statusOf } from '../../protocols/errors.ts';
import { BEGINS_AS_ERROR, errorIn, errorOfEvent, type ReadError, readError } from '../../protocols/read-error.ts';
import { endSaidIn } from '../../protocols/stop-reasons.ts';
import type { AttemptOutcome } from '../failover-table.ts';
import { refuseForeignAnswer } from '../foreign-answer.ts';
import { outcomeOf } from './error-meaning.ts';
import { errorText, type FailedAttempt } from './failed-attempt.ts';
import type { Beginning } from './hold.ts';

/** An answer whose beginning was read. */
interface Answered {
  readonly response: UpstreamResponse;
  readonly beginning: Beginning;
  /** Of the upstream. */
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Whether it is of an API beside those for models, which may answer with anything. */
  readonly is_other: boolean;
}

/** What is wrong with an answer. */
type Judgement = Pick<
  FailedAttempt,
  | 'outcome'
  | 'certainty'
  | 'status'
  | 'retry_after_seconds'
  | 'names_model'
  | 'by_phrase'
  | 'full_context'
  | 'response'
  | 'chunks'
  | 'is_whole'
  | 'error'
>;

/** Why an answer is none to give to the client as long as somebody else can answer; `undefined` where it is one. */
export function judgeAnswer(answered: Answered): Judgement | undefined {
  const { statusCode: status = 0, headers } = answered.response;
  if (status >= 400 && status <= 599) return judgeError(answered, status);
  if (status === 200 && isEventStream(headers['content-type'])) return judgeStream(answered);
  return judgeDocument(answered);
}

function judgeError({ response, beginning, name, now, is_other }: Answered, status: number): Judgement {
  const text = errorText(response, beginning.chunks);
  const said = readError(text);
  // What is missing there may be a file, and says nothing about a model.
  const is_file = is_other && status === 404;
  const outcome = outcomeOf(status, is_file ? undefined : said);
  const means = judged(outcome, status, is_other ? undefined : { said, text });
  // Clients are told that the conversation is too long in words of their own, whatever it was said in.
  const foreign =
    means.full_context === undefined
      ? refuseForeignAnswer(response, { name, now }, beginning.chunks[0], {
          takes_bytes: is_other,
          reason: said.message,
        })
      : undefined;
  const broken = beginning.by === 'broken' ? dropped(name, 'in the middle of its response') : undefined;
  const error = foreign ?? broken;
  return {
    ...means,
    retry_after_seconds: retryAfterSeconds(response.headers, now, text),
    ...(error === undefined ? passedOn(response, beginning) : { error }),
  };
}

function judgeStream({ response, beginning, name, now }: Answered): Judgement | undefined {
  const { event, by, chunks } = beginning;
  if (by === 'enough') return undefined;
  if (by === 'silent') {
    response.destroy();
    return { ...judged('unanswered', 200), error: silent(name) };
  }
  const text = event === undefined ? errorText(response, chunks) : event.data;
  const said = event === undefined ? errorIn(text) : errorOfEvent(event.name, text);
  if (said !== undefined) {
    const status = statusOf(said);
    return {
      ...judged(outcomeOf(status, said), status, { said, text }),
      retry_after_seconds: retryAfterSeconds(response.headers, now, event?.data),
      ...passedOn(response, beginning),
    };
  }
  // It broke off before it had said anything.
  if (event !== undefined && endSaidIn(event.data) === 'broken_off') {
    return { ...judged('failed', 502), ...passedOn(response, beginning) };
  }
  if (by === 'complete') return undefined;
  const error = dropped(name, 'before its stream said anything');
  // Whatever it is, it is all that the upstream has to say.
  if (by === 'ended' && saysSomething(response, chunks)) {
    return { ...judged('empty', 200), ...passedOn(response, beginning) };
  }
  return { ...judged('empty', 200), error };
}

/** Whether there is more than comments in what was meant to be a stream. */
function saysSomething(response: UpstreamResponse, chunks: readonly Buffer[]): boolean {
  if (chunks.length === 0) return false;
  return !isPlain(response.headers['content-encoding']) || /^[^:\s]/m.test(errorText(response, chunks));
}

function judgeDocument({ response, beginning, name, now, is_other }: Answered): Judgement | undefined {
  const { statusCode: status = 0, headers } = response;
  const { by, chunks } = beginning;
  if (by === 'silent') {
    response.destroy();
    return { ...judged('unanswered', status), error: silent(name) };
  }
  if (by === 'broken') return { ...judged('empty', status), error: dropped(name, 'in the middle of its response') };
  const foreign = refuseForeignAnswer(response, { name, now }, chunks[0], { takes_bytes: is_other });
  if (foreign !== undefined) {
    response.destroy();
    // A page says that no model was asked, and so does a redirect; nothing at all says nothing.
    return { ...judged(chunks.length === 0 && status < 300 ? 'empty' : 'foreign', status), error: foreign };
  }
  if (is_other) return undefined;
  const text = isPlain(headers['content-encoding']) ? chunks[0]!.toString('utf8') : '';
  const said = BEGINS_AS_ERROR.test(text.slice(0, 64)) ? errorIn(text) : undefined;
  if (said === undefined) return undefined;
  const stands_for = statusOf(said);
  return { ...judged(outcomeOf(stands_for, said), stands_for, { said, text }), ...passedOn(response, beginning) };
}

function judged(
  outcome: AttemptOutcome,
  status: number,
  error?: { readonly said: ReadError; readonly text: string },
): Judgement {
  const judgement = { outcome, status, certainty: 'answered', retry_after_seconds: undefined } as const;
  if (error === undefined) return { ...judgement, names_model: false };
  const { said, text } = error;
  const found = meaningOf(said, status);
  return {
    ...judgement,
    names_model: found?.meaning === 'model_missing' || /\bmodel\b/i.test(said.message),
    by_phrase: found?.by === 'phrase',
    ...(found?.meaning === 'context_full' && { full_context: text }),
  };
}

function passedOn(response: UpstreamResponse, { chunks, by }: Beginning) {
  return { response, chunks, is_whole: by === 'complete' && response.complete };
}

function dropped(name: string, when: string): StageError {
  return new StageError('upstream_failed', `The upstream "${name}" dropped the connection ${when}.`, {
    details: { upstream: name },
  });
}

function silent(name: string): StageError {
  const message = `The upstream "${name}" began to answer and then sent nothing; the same request sent again is paid again.`;
  return new StageError('upstream_timeout', message, {
    details: { upstream: name },
    headers: { 'x-should-retry': 'false' },
  });
}
