import type { ResponseConverter } from '../../../base/contract/stage.ts';
import { WholeEvents } from '../../../base/kit/net/whole-events.ts';
import { cacheWritten } from '../usage.ts';
import type { Json, ModelUsage } from './conversation.ts';

/** Field names of a `usage` object whose input includes cached tokens. */
interface TotalNames {
  readonly input: string;
  readonly output: string;
  readonly input_details: string;
  readonly output_details: string;
}

/** The names of chat completions. */
export const CHAT_TOTALS: TotalNames = {
  input: 'prompt_tokens',
  output: 'completion_tokens',
  input_details: 'prompt_tokens_details',
  output_details: 'completion_tokens_details',
};

/** The names of Responses. */
export const RESPONSES_TOTALS: TotalNames = {
  input: 'input_tokens',
  output: 'output_tokens',
  input_details: 'input_tokens_details',
  output_details: 'output_tokens_details',
};

/** Writes a `usage` object whose input includes cached tokens; `undefined` where input or output is unknown. */
export function writeTotals(usage: ModelUsage, names: TotalNames): Json | undefined {
  const { input: uncached, output, cache_read = 0, reasoning = 0, audio_input, audio_output } = usage;
  if (uncached === undefined || output === undefined) return undefined;
  const cache_write = cacheWritten(usage);
  const input = uncached + cache_read + cache_write;
  return {
    [names.input]: input,
    [names.output]: output,
    total_tokens: input + output,
    [names.input_details]: {
      cached_tokens: cache_read,
      cache_write_tokens: cache_write,
      ...(audio_input !== undefined && { audio_tokens: audio_input }),
    },
    [names.output_details]: {
      reasoning_tokens: reasoning,
      ...(audio_output !== undefined && { audio_tokens: audio_output }),
    },
  };
}

/** The end of an event: two ends of line in a row, of any of the three kinds. */
const EVENT_END = /(?:\r\n|\n|\r(?!\n)){2}/g;

/** Cheap filter for the chunk; the parsed event decides. */
const NO_CHOICES = /"choices"\s*:\s*\[\s*\]/;

/** Whether the text of an event is the extra chunk of a chat completions stream that has usage and no choices. */
function isUsageChunk(event: string): boolean {
  if (!NO_CHOICES.test(event)) return false;
  const data = event.split(/\r\n|\n|\r/).flatMap((line) => /^data:(.*)$/.exec(line)?.[1] ?? []);
  try {
    const { choices, usage } = JSON.parse(data.join('\n')) as { choices?: unknown; usage?: unknown };
    return Array.isArray(choices) && choices.length === 0 && typeof usage === 'object' && usage !== null;
  } catch {
    return false;
  }
}

/** Removes the chunk from whole events. */
function withoutChunk(events: Buffer): Buffer {
  const text = events.toString('latin1');
  if (!NO_CHOICES.test(text)) return events;
  const passed: Buffer[] = [];
  const ends = [...text.matchAll(EVENT_END)].map(({ index, 0: blank }) => index + blank.length);
  let start = 0;
  for (const end of [...ends, text.length]) {
    if (!isUsageChunk(text.slice(start, end))) passed.push(events.subarray(start, end));
    start = end;
  }
  return Buffer.concat(passed);
}

/**
 * Takes the extra chunk with the usage out of a stream of chat completions, and leaves every other byte. What is no complete
 * event yet waits for the rest of it, unless it is so long that it is passed on unseen.
 */
export function withoutUsageChunk(): ResponseConverter {
  let passed: Buffer[] = [];
  const events = new WholeEvents((bytes) => passed.push(bytes as Buffer));
  const take = (move: () => void) => {
    const was_inside = events.inside;
    move();
    const bytes = passed.length === 1 ? passed[0]! : Buffer.concat(passed);
    passed = [];
    return was_inside || events.inside ? bytes : withoutChunk(bytes);
  };
  return { write: (chunk) => take(() => events.push(chunk)), end: () => take(() => events.end()) };
}
