/**
 * A Messages upstream for tests, on the engine's scripted one: its responses, down to raw bytes and cut connections.
 */

import {
  EVENT_STREAM,
  openUpstream,
  type ScriptedUpstream as PlayedUpstream,
  type Received,
  type Script,
  sse,
} from '../../../engine/edge/simulate/upstream.ts';
import { freePort } from '../free-port.ts';
import { until } from '../until.ts';

export {
  EVENT_STREAM,
  type Exchange,
  type Received,
  type Script,
  sse,
} from '../../../engine/edge/simulate/upstream.ts';

/**
 * An upstream whose `requests` are those that the callers of a test have caused. Their number is exact once the callers have their
 * answers, where no other test asks this upstream meanwhile.
 */
export interface ScriptedUpstream extends PlayedUpstream {
  /** Requests for the list of its models, which a gateway makes of its own accord. */
  readonly lists: Received[];
  /** The only request; throws for none or several. */
  only(): Received;
  /** Resolves to the last request once there are `count`; a request that never arrives fails the test instead of hanging it. */
  arrived(count: number): Promise<Received>;
}

/**
 * Starts an upstream on the loopback address. Its port comes from `freePort`, for one that the system chooses could be given to
 * another process while the upstream is paused.
 */
export async function startUpstream(script: Script = answerJson(message())): Promise<ScriptedUpstream> {
  const lists: Received[] = [];
  const upstream = await openUpstream(script, await freePort(), lists);
  return Object.assign(upstream, {
    lists,
    only() {
      if (upstream.requests.length !== 1) throw new Error(`the upstream saw ${upstream.requests.length} requests`);
      return upstream.requests[0]!;
    },
    arrived: async (count: number) => {
      await until(`the upstream has seen ${count} requests`, () => upstream.requests.length >= count);
      return upstream.requests.at(-1)!;
    },
  });
}

/** Headers as names and values in turn (repetition and spelling kept), or as a record. */
export type ReplyHeaders = readonly string[] | Readonly<Record<string, string>>;

function headList(headers: ReplyHeaders): string[] {
  return Array.isArray(headers) ? [...headers] : Object.entries(headers).flat();
}

/** Returns these bytes with these headers and nothing else but the framing. */
export function answerBytes(status: number, headers: ReplyHeaders, body: Buffer | string): Script {
  return ({ res }) => {
    const bytes = Buffer.from(body as string);
    res.writeHead(status, [...headList(headers), 'content-length', String(bytes.length)]);
    res.end(bytes);
  };
}

/** Returns JSON. */
export function answerJson(value: unknown, status = 200, headers: Record<string, string> = {}): Script {
  return answerBytes(
    status,
    { 'content-type': 'application/json', 'request-id': 'req_scripted', ...headers },
    JSON.stringify(value),
  );
}

/** Returns a stream, one write per chunk, each in a turn of its own. */
export function answerChunks(chunks: readonly (string | Buffer)[], headers: ReplyHeaders = EVENT_STREAM): Script {
  return async ({ res }) => {
    res.writeHead(200, headList(headers));
    for (const chunk of chunks) {
      res.write(chunk);
      await new Promise((resolve) => setImmediate(resolve));
    }
    res.end();
  };
}

/** Writes these raw bytes to the connection, then closes it. */
export function answerRaw(bytes: Buffer | string): Script {
  return ({ socket }) => {
    socket.end(bytes);
  };
}

/** Never responds. */
export const hang: Script = () => {};

/** Resets the connection instead of responding. */
export const reset: Script = ({ socket }) => {
  socket.resetAndDestroy();
};

/** Usage as the Messages API reports it, with every kind of cache token. */
export const USAGE = {
  input_tokens: 100,
  cache_creation_input_tokens: 30,
  cache_read_input_tokens: 2000,
  cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
  output_tokens: 40,
  service_tier: 'standard',
};

/** A complete Messages response. */
export function message(usage: object = USAGE): object {
  return {
    id: 'msg_scripted',
    type: 'message',
    role: 'assistant',
    model: 'upstream-model',
    content: [{ type: 'text', text: 'Hello there.' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage,
  };
}

/** The events of a Messages stream with `words` and `usage`. */
export function messageEvents(
  words: readonly string[] = ['Hello ', 'there.'],
  usage: Readonly<Record<string, unknown>> & { readonly output_tokens: number } = USAGE,
): string[] {
  const { output_tokens } = usage;
  const delta = (text: string) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } });
  return [
    { type: 'message_start', message: { ...message({ ...usage, output_tokens: 1 }), content: [], stop_reason: null } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'ping' },
    ...words.map(delta),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens } },
    { type: 'message_stop' },
  ].map(sse);
}
