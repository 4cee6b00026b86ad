import { shortText } from '../answer-lines.ts';
import { fieldsOf } from '../read-answer.ts';
import { readEvents } from '../read-events.ts';
import { wrongUsage } from './judge-message.ts';

/** What a stream of the Messages API says, as far as it was read. */
export interface StreamReading {
  /** What is wrong with it, first things first; empty for a stream as it should be. */
  readonly faults: readonly string[];
  /** The text of an `error` event. */
  readonly error: string | undefined;
  readonly model: unknown;
  readonly usage: Readonly<Record<string, unknown>>;
  readonly events: number;
}

type Fields = Readonly<Record<string, unknown>>;

const FAULTS_MAX = 5;

/**
 * Reads a stream as strictly as clients do: message_start, blocks that are started, filled and stopped one by one,
 * message_delta with stop_reason and usage, message_stop. Unknown events and pings may stand anywhere.
 */
export function readStream(text: string): StreamReading {
  const faults: string[] = [];
  const fault = (what: string) => {
    if (faults.length < FAULTS_MAX && !faults.includes(what)) faults.push(what);
  };
  const state = createState(fault);
  for (const { name, data, fields } of readEvents(text)) {
    if (typeof fields.type !== 'string') {
      fault(data === '[DONE]' ? 'a [DONE] as chat completions have it' : 'data that is no JSON object with a type');
      continue;
    }
    if (name === undefined) fault('data lines without event lines');
    else if (name !== fields.type) fault(`an event ${shortText(name, 40)} with data of ${shortText(fields.type, 40)}`);
    state.take(fields.type, fields);
  }
  state.end();
  return { faults, error: state.error(), ...state.facts() };
}

function createState(fault: (what: string) => void) {
  let is_started = false;
  let is_stopped = false;
  let open_block: unknown;
  let blocks = 0;
  let stop_reason: unknown;
  let model: unknown;
  let error: string | undefined;
  let usage: Fields = {};
  let events = 0;

  const inBlock = (index: unknown, name: string) => {
    if (open_block === undefined || index !== open_block) fault(`a ${name} of a block that is not open`);
  };
  const takes: Readonly<Record<string, (fields: Fields) => void>> = {
    message_start({ message }) {
      if (is_started) fault('a second message_start');
      is_started = true;
      const started = fieldsOf(message);
      if (started.type !== 'message') fault('a message_start without a message');
      model = started.model;
      usage = { ...usage, ...fieldsOf(started.usage) };
    },
    content_block_start({ index, content_block }) {
      if (open_block !== undefined) fault('a block that starts before the one before it has stopped');
      if (index !== blocks) fault('blocks that are not numbered 0, 1, 2');
      if (typeof fieldsOf(content_block).type !== 'string') fault('a content_block_start without a block');
      open_block = index;
      blocks++;
    },
    content_block_delta({ index, delta }) {
      inBlock(index, 'content_block_delta');
      if (typeof fieldsOf(delta).type !== 'string') fault('a content_block_delta without a delta');
    },
    content_block_stop({ index }) {
      inBlock(index, 'content_block_stop');
      open_block = undefined;
    },
    message_delta({ delta, usage: told }) {
      if (open_block !== undefined) fault('a message_delta before the last block has stopped');
      stop_reason = fieldsOf(delta).stop_reason ?? stop_reason;
      // Last one wins, but null tells nothing.
      const known = Object.entries(fieldsOf(told)).filter(([, value]) => value !== null);
      usage = { ...usage, ...Object.fromEntries(known) };
    },
    message_stop() {
      if (typeof stop_reason !== 'string') fault('no message_delta with a stop_reason before message_stop');
      is_stopped = true;
    },
  };
  return {
    take(type: string, fields: Fields) {
      if (type === 'ping') return;
      events++;
      if (type === 'error') {
        const { type: kind, message } = fieldsOf(fields.error);
        error = shortText([kind, message].filter((part) => typeof part === 'string').join(': '));
        return;
      }
      const take = Object.hasOwn(takes, type) ? takes[type] : undefined;
      if (take === undefined) return;
      if (!is_started && type !== 'message_start') fault(`a ${type} before message_start`);
      if (is_stopped) fault(`a ${type} behind message_stop`);
      take(fields);
    },
    end() {
      if (events === 0) fault('no event');
      else if (!is_stopped) fault('no message_stop at the end');
      else for (const wrong of wrongUsage(usage)) fault(wrong);
    },
    error: () => error,
    facts: () => ({ model, usage, events }),
  };
}
