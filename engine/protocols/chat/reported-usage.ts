import type { ResponseEvent } from '../../contract/stage.ts';
import { breaksOff, saysReason } from '../stop-reasons.ts';
import { jsonTextLength } from '../usage/json-text.ts';
import { asObject, isCount, parseObject, TOKENS_MAX, type UsageReading } from '../usage/reading.ts';
import { noteModel, noteServed } from '../usage/telling.ts';
import { CHAT_TOTALS, overlayTotals } from '../usage/totals.ts';

/** What is said in a delta, by the keys that upstreams use, up to the first letter. */
const DELTA_TEXT = /"(?:content|reasoning_content|reasoning|arguments|refusal|text)"\s*:\s*"(?!")/g;

const MESSAGE = /message"\s*:\s*\{/;

/** Takes in what an upstream that speaks chat completions sent. Only the few chunks that may tell more than text are parsed. */
export function readChatUsage(reading: UsageReading, { name, data }: ResponseEvent): void {
  if (name === undefined) {
    readDocument(reading, parseObject(data));
    return;
  }
  reading.streamed = true;
  if (name === 'error') reading.failed = true;
  else if (data === '[DONE]') reading.complete ||= !reading.failed;
  else {
    const delta = data.indexOf('delta":');
    if (delta >= 0) countDelta(reading, data, delta);
    else if (reading.deltas === 0) countMessage(reading, data);
    if (delta < 0 || tells(data, 'usage":') || tells(data, 'finish_reason":')) readChunk(reading, parseObject(data));
  }
}

/**
 * Whether a key is there with a value; with a blank between the two it is only suspected. Searching is fast for what does
 * not begin with a quote, of which there are many; inside a text the quote would be escaped.
 */
function tells(data: string, key: string): boolean {
  const at = data.indexOf(key);
  return at >= 0 && !data.startsWith('null', at + key.length);
}

function readChunk(reading: UsageReading, chunk: Record<string, unknown> | undefined): void {
  if (chunk === undefined) return;
  if (chunk.error != null) reading.failed = true;
  const choices = Array.isArray(chunk.choices) ? chunk.choices.map(asObject) : [];
  const words = choices.flatMap((choice) => (saysReason(choice?.finish_reason) ? [choice.finish_reason] : []));
  // What it used until then is told all the same.
  if (words.some(breaksOff)) reading.failed = true;
  else if (words.length > 0) reading.complete = true;
  noteAnswer(reading, chunk);
  overlayTotals(reading, chunk.usage, CHAT_TOTALS);
  // Before the end it is what has been counted so far.
  const is_last = reading.complete || words.length > 0 || (Array.isArray(chunk.choices) && chunk.choices.length === 0);
  if (is_last) reading.counted ||= isCount(asObject(chunk.usage)?.completion_tokens, TOKENS_MAX);
}

function readDocument(reading: UsageReading, document: Record<string, unknown> | undefined): void {
  if (document === undefined) return;
  if (document.error != null) reading.failed = true;
  if (!Array.isArray(document.choices) && asObject(document.usage) === undefined) return;
  noteAnswer(reading, document);
  overlayTotals(reading, document.usage, CHAT_TOTALS);
  reading.counted = true;
  reading.complete = true;
}

/** Who answered, and how: some upstreams tell the tier beside the usage, others in it. */
function noteAnswer(reading: UsageReading, said: Record<string, unknown>): void {
  noteModel(reading, said.model);
  noteServed(reading, { ...asObject(said.usage), ...withValue(said) });
}

function withValue({ service_tier }: Record<string, unknown>): object {
  return service_tier == null ? {} : { service_tier };
}

/** A whole message where a stream was asked for: all that it says. After deltas it would be a repetition. */
function countMessage(reading: UsageReading, data: string): void {
  const message = data.search(MESSAGE);
  if (message < 0) return;
  DELTA_TEXT.lastIndex = message;
  while (DELTA_TEXT.test(data)) {
    reading.deltas++;
    reading.delta_chars += jsonTextLength(data, DELTA_TEXT.lastIndex);
  }
}

/** Every chunk that says something is a token or more. */
function countDelta(reading: UsageReading, data: string, delta: number): void {
  DELTA_TEXT.lastIndex = delta;
  if (!DELTA_TEXT.test(data)) return;
  reading.deltas++;
  reading.delta_chars += jsonTextLength(data, DELTA_TEXT.lastIndex);
}
