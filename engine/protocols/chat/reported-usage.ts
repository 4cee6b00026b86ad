import type { ResponseEvent } from '../../contract/stage.ts';
import { isError } from '../read-error.ts';
import { breaksOff, saysReason } from '../stop-reasons.ts';
import {
  asObject,
  jsonTextLength,
  noteModel,
  noteServed,
  overlayTotals,
  parseObject,
  readTotals,
  type UsageReading,
} from '../usage.ts';

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
  let at = data.indexOf(key);
  while (at >= 0 && data.startsWith('null', at + key.length)) at = data.indexOf(key, at + key.length);
  return at >= 0;
}

function readChunk(reading: UsageReading, chunk: Record<string, unknown> | undefined): void {
  if (chunk === undefined) return;
  if (chunk.error != null) reading.failed = true;
  noteAnswer(reading, chunk);
  takeChatUsage(reading, chunk);
}

function readDocument(reading: UsageReading, document: Record<string, unknown> | undefined): void {
  if (document === undefined) return;
  if (isError(document)) reading.failed = true;
  if (!Array.isArray(document.choices) && asObject(document.usage) === undefined) return;
  noteAnswer(reading, document);
  takeChatUsage(reading, document);
  reading.counted = true;
  reading.complete = true;
}

/** Takes in what a chunk, or a document, says of usage: the one reader for the bill and for translated answers. */
export function takeChatUsage(reading: UsageReading, chunk: Readonly<Record<string, unknown>>): void {
  const choices: readonly unknown[] = Array.isArray(chunk.choices) ? chunk.choices : [];
  let is_counted = false;
  for (const usage of usagesIn(chunk, choices)) {
    const report = readTotals(usage);
    if (report === undefined) continue;
    reading.seen = true;
    reading.unusable ||= report.unusable;
    reading.reported = overlayTotals(reading.reported, report.counts, reading.complete);
    is_counted ||= report.counts.output !== undefined;
  }
  const words = choices.map((choice) => asObject(choice)?.finish_reason).filter(saysReason);
  // What it used until then is told all the same.
  if (words.some(breaksOff)) reading.failed = true;
  else if (words.length > 0) reading.complete = true;
  // Before the end it is what has been counted so far.
  const is_last = reading.complete || words.length > 0 || (Array.isArray(chunk.choices) && choices.length === 0);
  if (is_last) reading.counted ||= is_counted;
}

/** Usage in every place that servers put it, the most telling last: llama.cpp, Moonshot, Groq, all others. */
function* usagesIn(chunk: Readonly<Record<string, unknown>>, choices: readonly unknown[]): Generator<unknown> {
  if (chunk.usage == null && chunk.timings != null) yield ofTimings(asObject(chunk.timings));
  for (const choice of choices) yield asObject(choice)?.usage;
  if (chunk.x_groq != null) yield asObject(chunk.x_groq)?.usage;
  yield chunk.usage;
}

/** What llama.cpp counts in its last chunk where it was not asked for usage. */
function ofTimings({ cache_n, prompt_n, predicted_n }: Readonly<Record<string, unknown>> = {}): object {
  const prompt_tokens = typeof prompt_n === 'number' && typeof cache_n === 'number' ? prompt_n + cache_n : prompt_n;
  return { prompt_tokens, cached_tokens: cache_n, completion_tokens: predicted_n };
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
