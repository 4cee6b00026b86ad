import type { SelfCheck, SelfCheckOutcome } from '../check.ts';
import { askMessages, outcome, SHORT, shortBody } from '../messages/ask.ts';
import { otherModel } from '../messages/judge-message.ts';
import { judgeContinuity, judgeStream } from '../messages/judge-stream.ts';
import { judgeArrivals } from '../streams/judge-arrivals.ts';
import type { Subject } from '../subject.ts';
import { withoutModel } from '../without-model.ts';

/** Long enough for a second or more of most models; all checks together stay below a cent. */
const LONG_ANSWER_TOKENS = 120;

/** Streams of the Messages API: that events arrive one by one as they are made. */
export const STREAM_CHECKS: readonly SelfCheck[] = [
  {
    id: 'messages.stream',
    title: 'A streamed message',
    expected:
      'text/event-stream with event and data lines: message_start, blocks, message_delta with usage, message_stop.',
    uses: SHORT,
    skipped: withoutModel,
    run: checkStream,
  },
  {
    id: 'messages.stream_arrival',
    title: 'Events arrive as they are made',
    expected: 'event and data lines appear all the time while the model writes, the first of them at once.',
    // A second, short answer is asked for only where the first one leaves it open.
    uses: { requests: 2, input: 2 * SHORT.input, output: LONG_ANSWER_TOKENS + SHORT.output },
    skipped: withoutModel,
    run: checkArrival,
  },
];

async function checkStream(subject: Subject): Promise<SelfCheckOutcome> {
  const asked = await askMessages(subject, shortBody(subject, { stream: true }), { note: 'as a stream' });
  const read = judgeStream(asked.answer);
  if ('found' in read) return outcome(asked, { verdict: 'failed', ...read });
  const found = `${read.events} events in ${Math.round(asked.answer.total_ms)} ms, in their order and with usage`;
  const details = [otherModel(subject.model, read.model)].filter((line) => line !== undefined);
  return outcome(asked, { verdict: 'ok', found, details });
}

async function checkArrival(subject: Subject): Promise<SelfCheckOutcome> {
  const long_question = [
    { role: 'user', content: 'Write the numbers from one to eighty as words, with commas between.' },
  ];
  const long_body = shortBody(subject, { stream: true, max_tokens: LONG_ANSWER_TOKENS, messages: long_question });
  const asked = await askMessages(subject, long_body, { note: 'a long answer as a stream' });
  const read = judgeStream(asked.answer);
  if ('found' in read) {
    const found = `can not be told: ${read.found}`;
    return outcome(asked, { verdict: 'skipped', found });
  }
  const arriving = judgeArrivals(asked.answer);
  const needs_short = arriving === 'at_once' && asked.answer.headers['content-length'] === undefined;
  if (!needs_short) return outcome(asked, judgeContinuity(asked.answer, undefined));
  const short = await askMessages(subject, shortBody(subject, { stream: true }));
  return outcome(asked, judgeContinuity(asked.answer, short.answer));
}
