import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { openPort } from '../net/own-port.ts';

/** A request at the proxy, whole, and the means to query the server behind. */
export interface Passage {
  readonly request: IncomingMessage;
  readonly body: Buffer;
  readonly res: ServerResponse;
  /** Queries the server behind, with other headers (names and values in turn) or another body if given. */
  ask(changes?: { readonly headers?: readonly string[]; readonly body?: Buffer }): Promise<IncomingMessage>;
}

/** A proxy's reaction to a request. */
export type Behaviour = (passage: Passage) => void | Promise<void>;

/** Starts a small reverse proxy in front of an address, on a free port of the loopback address. A test may change its behaviour. */
export async function startProxy(target: string, behaviour: Behaviour) {
  const server = createServer(async (req, res) => {
    try {
      const body = await buffer(req);
      await proxy.behaviour({ request: req, body, res, ask: (changes) => ask(target, req, { body, ...changes }) });
    } catch {
      // The client has gone, or the server behind has: no reader is left.
      res.destroy();
    }
  });
  const { url, close } = await openPort(server);
  const proxy = { url, behaviour, close };
  return proxy;
}

const HOP_BY_HOP = ['connection', 'content-length', 'host', 'keep-alive', 'transfer-encoding'];

async function ask(
  target: string,
  { method, url, rawHeaders }: IncomingMessage,
  { headers = rawHeaders, body }: { headers?: readonly string[]; body: Buffer },
): Promise<IncomingMessage> {
  const { host } = new URL(target);
  const kept = pairs(headers).filter(([name]) => !HOP_BY_HOP.includes(name.toLowerCase()));
  const sent = [...kept, ['host', host], ['content-length', String(body.length)]].flat();
  const behind = request(new URL(url ?? '/', target), { ...(method && { method }), headers: sent, agent: false });
  behind.end(body);
  const [response] = (await once(behind, 'response')) as [IncomingMessage];
  return response;
}

/** Names and values of headers that are written in turn. */
export function pairs(raw: readonly string[]): [name: string, value: string][] {
  return raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1]!] as [string, string]] : []));
}

/** Writes the head of a response as the server behind did, but for headers of one connection and for `changes`. */
export function copyHead(
  res: ServerResponse,
  response: IncomingMessage,
  changes: Record<string, string | undefined> = {},
) {
  const kept = pairs(response.rawHeaders).filter(([name]) => {
    const known = name.toLowerCase();
    return !HOP_BY_HOP.includes(known) && !(known in changes);
  });
  const changed = Object.entries(changes).filter((pair): pair is [string, string] => pair[1] !== undefined);
  res.writeHead(response.statusCode ?? 502, [...kept, ...changed].flat());
}
