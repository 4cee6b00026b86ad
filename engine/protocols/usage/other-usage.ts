import type { ResponseEvent } from '../../contract/stage.ts';
import { asObject, isCount, parseObject, TOKENS_MAX, type UsageReading } from './reading.ts';
import { noteModel } from './telling.ts';

/** How APIs beside those for models call the tokens they read and those they made. */
const INPUT = ['prompt_tokens', 'input_tokens'] as const;
const OUTPUT = ['completion_tokens', 'output_tokens'] as const;

/**
 * Takes in what an upstream says that was asked for something beside an answer of a model: embeddings, images, audio. Only
 * usage in tokens counts; the last word on it stands.
 */
export function readOtherUsage(reading: UsageReading, { name, data, large }: ResponseEvent): void {
  if (name !== undefined) {
    reading.streamed = true;
    if (name === 'error') reading.failed = true;
    if (!data.includes('"usage"')) return;
  }
  const said = parseObject(large?.outline ?? data);
  if (said === undefined) return;
  if (name === undefined && said.error != null) reading.failed = true;
  noteModel(reading, said.model);
  readTokens(reading, asObject(said.usage));
}

function readTokens(reading: UsageReading, usage: Record<string, unknown> | undefined): void {
  if (usage === undefined) return;
  const input = take(reading, usage, INPUT);
  // Input that is written to a cache costs more, and is told beside the other.
  if (usage.cache_creation_input_tokens || usage.cache_read_input_tokens) return;
  const total = take(reading, usage, ['total_tokens']);
  const told = take(reading, usage, OUTPUT);
  // Of what is no number, the rest may be made up as well.
  if (reading.unusable) return;
  const output = told ?? (input === undefined || total === undefined ? 0 : total - input);
  const read = input ?? (total === undefined ? undefined : total - output);
  // Numbers that contradict each other tell nothing.
  if (read === undefined || read < 0 || output < 0) {
    reading.unusable ||= read !== undefined;
    return;
  }
  reading.reported.input_tokens = read;
  reading.reported.output_tokens = output;
  reading.seen = true;
  reading.counted = true;
  reading.complete = true;
}

function take(reading: UsageReading, usage: Record<string, unknown>, names: readonly string[]): number | undefined {
  const found = names.map((name) => usage[name]).find((value) => value !== undefined && value !== null);
  if (isCount(found, TOKENS_MAX)) return found;
  reading.unusable ||= found !== undefined;
  return undefined;
}
