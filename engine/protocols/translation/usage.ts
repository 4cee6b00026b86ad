import type { ResponseConverter } from '../../contract/stage.ts';
import { cacheWritten } from '../usage.ts';
import type { ModelUsage } from './conversation.ts';

/** What a protocol calls the totals of its `usage` object, whose input includes cached tokens. */
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

/** Writes a `usage` object whose input includes cached tokens; `undefined` where input or output was not told. */
export function writeTotals(usage: ModelUsage, names: TotalNames): Record<string, unknown> | undefined {
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

/** An event longer than this is passed on unseen, so that an upstream can't fill memory. */
const EVENT_BYTES_MAX = 1024 * 1024;

/** The end of an event: two ends of line in a row, of any of the three kinds. */
const EVENT_END = /(?:\r\n|\n|\r(?!\n)){2}/g;

/** The cheap sign that an event may be the chunk; the parsed event decides. */
const NO_CHOICES = /"choices"\s*:\s*\[\s*\]/;

const CR = 0x0d;
const LF = 0x0a;

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

/** Whether bytes end with an event: the usual case, in which nothing has to be kept. */
function endsWithEvent(bytes: Buffer): boolean {
  const { length } = bytes;
  if (bytes[length - 1] !== LF) return false;
  return bytes[length - 2] === LF || (bytes[length - 2] === CR && bytes[length - 3] === LF);
}

/**
 * Takes the extra chunk with the usage out of a stream of chat completions, and leaves every other byte. What is no complete
 * event yet waits for the rest of it.
 */
export function withoutUsageChunk(): ResponseConverter {
  let kept: Buffer[] = [];
  let size = 0;
  let unseen = false;

  function keep(bytes: Buffer): void {
    kept = bytes.length === 0 ? [] : [bytes];
    size = bytes.length;
  }

  /** The bytes of complete events without the chunk; the rest is kept. */
  function take(bytes: Buffer): Buffer {
    const text = bytes.toString('latin1');
    const passed: Buffer[] = [];
    let start = 0;
    for (const { index, 0: blank } of text.matchAll(EVENT_END)) {
      const end = index + blank.length;
      // A line feed may follow that belongs to the same end of line.
      if (end === bytes.length && bytes[end - 1] === CR) break;
      if (!isUsageChunk(text.slice(start, end))) passed.push(bytes.subarray(start, end));
      start = end;
    }
    keep(bytes.subarray(start));
    return Buffer.concat(passed);
  }

  return {
    write(chunk) {
      if (unseen) return chunk;
      if (size === 0 && endsWithEvent(chunk) && !NO_CHOICES.test(chunk.toString('latin1'))) return chunk;
      // An event in many pieces is looked at when a line of it ends, not for each of them.
      const may_end = chunk.includes(LF) || chunk.includes(CR) || kept.at(-1)?.at(-1) === CR;
      kept.push(chunk);
      size += chunk.length;
      const passed = may_end ? take(Buffer.concat(kept)) : '';
      if (size <= EVENT_BYTES_MAX) return passed;
      unseen = true;
      const all = Buffer.concat([Buffer.from(passed), ...kept]);
      kept = [];
      return all;
    },
    end() {
      const rest = Buffer.concat(kept);
      return unseen || isUsageChunk(rest.toString('latin1')) ? '' : rest;
    },
  };
}
