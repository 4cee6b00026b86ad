import type { Protocol } from '../../../base/contract/protocol.ts';
import { DEFINITIONS } from '../../../domain/protocols/definitions.ts';
import type { AnswerContext, ModelEvent, ModelUsage } from '../../../domain/protocols/translation/conversation.ts';
import { Notes } from '../../../domain/protocols/translation/rules.ts';
import type { EchoAnswer } from './open-echo.ts';

interface Wanted {
  readonly model: string;
  readonly answer: EchoAnswer;
}

const TEXT = 'This is the echo upstream of a self-check.';
const PIECES = 4;
const PIECES_MAX = 200;
const USAGE: ModelUsage = { input: 11, output: 5, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, reasoning: 0 };

function piecesOf({ text = TEXT, pieces = PIECES }: EchoAnswer): string[] {
  const count = Math.min(Math.max(1, pieces), PIECES_MAX);
  const length = Math.max(1, Math.ceil(text.length / count));
  return Array.from({ length: count }, (_, index) => text.slice(index * length, (index + 1) * length)).filter(
    (piece, index) => piece !== '' || index === 0,
  );
}

function modelEvents({ model, answer }: Wanted): ModelEvent[] {
  const usage = { ...USAGE, ...answer.usage };
  return [
    { type: 'start', model, usage: { ...usage, output: 1 } },
    { type: 'part_start', index: 0, part: { kind: 'text' } },
    ...piecesOf(answer).map((text): ModelEvent => ({ type: 'part_delta', index: 0, text })),
    { type: 'part_end', index: 0 },
    { type: 'end', reason: 'finished', usage },
  ];
}

const contextOf = (protocol: Protocol, { model }: Wanted): AnswerContext => ({
  request_id: 'selfcheck',
  made_by: { protocol, upstream: 'echo' },
  model,
  created_at: 1_790_000_000,
  include_usage: true,
  free_text_tools: new Set(),
  echo: {},
});

/** A complete response of the echo upstream. */
export function echoDocument(protocol: Protocol, wanted: Wanted): string {
  const { adapter } = DEFINITIONS[protocol];
  return JSON.stringify(adapter.writeDocument(modelEvents(wanted), contextOf(protocol, wanted), new Notes()));
}

/** The events of a stream of the echo upstream, serialised, with one event per piece of text. */
export function echoEvents(protocol: Protocol, wanted: Wanted): string[] {
  const writer = DEFINITIONS[protocol].adapter.createWriter(contextOf(protocol, wanted), new Notes());
  const { extra_events = '' } = wanted.answer;
  return modelEvents(wanted)
    .map((event) => (event.type === 'end' ? extra_events : '') + writer.write(event))
    .join('')
    .split(/(?<=\n\n)/);
}

/** An error of the echo upstream in the format of the protocol. */
export function echoError(protocol: Protocol, type: string, message: string): string {
  const error = { type, message };
  return JSON.stringify(protocol === 'messages' ? { type: 'error', error } : { error: { ...error, code: null } });
}
