import type { Emit, ModelEvent, ModelUsage } from './events.ts';
import { encodeCallId } from './features/call-ids.ts';
import { StopCutter } from './features/stop-sequences.ts';
import type { Translation } from './translate.ts';

/** Characters per token, for answers whose upstream does not count. */
const CHARS_PER_TOKEN = 4;

/**
 * What happens to an answer between the protocol it was read from and the one it is written in: calls get the names that the
 * client gave its tools, texts end at stop sequences that the upstream was not told, and where clients of the protocol need a
 * usage, what the upstream does not tell is estimated.
 */
export function filterAnswer(translation: Translation, write: Emit): Emit {
  const { from, stops } = translation;
  const counted = from === 'messages' ? withUsage(translation, write) : write;
  if (stops.length === 0) return (event) => counted(renamed(event, translation));
  const cutter = new StopCutter(stops, from === 'chat');
  return (event) => cutter.take(renamed(event, translation), counted);
}

/** Calls of tools by the names that the client gave, with identifiers that its protocol takes. */
function renamed(event: ModelEvent, { from, notes, restoreName }: Translation): ModelEvent {
  if (event.type !== 'part_start' || event.part.kind !== 'tool_call') return event;
  const name = restoreName(event.part.name);
  const id = from === 'messages' ? encodeCallId(event.part.id) : event.part.id;
  if (id !== event.part.id) notes.note('answer_call_id');
  return name === event.part.name && id === event.part.id ? event : { ...event, part: { ...event.part, name, id } };
}

/** Clients of Messages add up input and output of every answer, and the protocol has no word for a count that nobody knows. */
function withUsage({ notes, input_tokens_estimate: input }: Translation, write: Emit): Emit {
  let told: ModelUsage = {};
  let chars = 0;
  return (event) => {
    if (event.type === 'part_delta') chars += event.text.length;
    if (event.type !== 'start' && event.type !== 'end') return write(event);
    told = { ...told, ...event.usage };
    if (event.type === 'start') return write({ ...event, usage: { ...(input !== undefined && { input }), ...told } });
    if (told.input === undefined || told.output === undefined) notes.note('answer_usage');
    const estimate = { ...(input !== undefined && { input }), output: Math.ceil(chars / CHARS_PER_TOKEN) };
    write({ ...event, usage: { ...estimate, ...told } });
  };
}
