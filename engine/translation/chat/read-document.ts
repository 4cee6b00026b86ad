import type { Json } from '../adapter.ts';
import { notTheApi } from '../answer-faults.ts';
import type { ModelEvent } from '../events.ts';
import type { Notes } from '../notes.ts';
import { isObject } from '../read-json.ts';
import { ChunkReader } from './chunk-reader.ts';

/** Reads an upstream's whole answer: it has in `message` what a stream has in deltas. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const events: ModelEvent[] = [];
  const chunks = new ChunkReader(notes, (event) => events.push(event));
  const { choices, ...rest } = document;
  const list = Array.isArray(choices) ? choices.filter(isObject) : [];
  chunks.read({ ...rest, choices: list.map(asChunkChoice) });
  if (!chunks.over && !list.some(({ message }) => isObject(message))) {
    throw notTheApi('choices.0.message is missing');
  }
  chunks.end();
  return events;
}

function asChunkChoice({ message, ...choice }: Json): Json {
  if (!isObject(message) || !Array.isArray(message.tool_calls)) return { ...choice, delta: message };
  const tool_calls = message.tool_calls.map((call, index) => (isObject(call) ? { ...call, index } : call));
  return { ...choice, delta: { ...message, tool_calls } };
}
