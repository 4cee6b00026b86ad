import type { ResponseEvent } from '../../contract/stage.ts';
import { asObject, isCount, parseObject, TOKENS_MAX, type UsageReading } from './reading.ts';
import { noteModel } from './telling.ts';
import { readTotals } from './totals.ts';

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
  // Input that is written to a cache costs more, and is told beside the other.
  if (usage.cache_creation_input_tokens || usage.cache_read_input_tokens) return;
  const { counts, unusable } = readTotals(usage) ?? { counts: {}, unusable: false };
  const total = isCount(usage.total_tokens, TOKENS_MAX) ? usage.total_tokens : undefined;
  const { output_tokens = 0, cache_read_input_tokens = 0 } = counts;
  const input_tokens = counts.input_tokens ?? (counts.output_tokens === undefined ? total : undefined);
  // Of what is no number, the rest may be made up as well. Numbers that contradict each other tell nothing.
  reading.unusable ||= unusable || (total !== undefined && total < (input_tokens ?? 0) + cache_read_input_tokens);
  if (reading.unusable || input_tokens === undefined) return;
  reading.reported = { ...counts, input_tokens, output_tokens };
  reading.seen = true;
  reading.counted = true;
  reading.complete = true;
}
