/**
 * Upstreams that fail in every way there is, for each protocol: one real HTTP server, in which each upstream has a path of its
 * own and plays a test's script.
 */
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { openUpstream, type Script, sse } from '../../../engine/edge/simulate/upstream.ts';
import { freePort } from '../free-port.ts';
import { checkRequest, documentOf, eventsOf } from './model-provider.ts';
import { chatError, messagesError, numbered } from './model-provider-answers.ts';
import type { Failure } from './model-provider-script.ts';
import type { Exchange, Received } from './scripted-upstream.ts';

/** One request as an upstream that plays a part sees it. */
export interface Call extends Exchange {
  /** The name of the upstream. */
  readonly upstream: string;
  readonly protocol: Protocol;
  readonly stream: boolean;
  readonly model: string;
  /** How many requests for this model were here, this one included. */
  readonly nth: number;
}

/** An upstream's reaction to a request whose body has arrived. */
export type Play = (call: Call) => void | Promise<void>;

/** The running upstreams. */
export type FaultServer = Awaited<ReturnType<typeof startFaultServer>>;

/** A closed port: connections are rejected at once. */
export const REFUSING = 'http://127.0.0.1:1';

const PATHS: readonly (readonly [ending: string, Protocol])[] = [
  ['/messages', 'messages'],
  ['/messages/count_tokens', 'messages'],
  ['/chat/completions', 'chat'],
  ['/responses', 'responses'],
];

/** The usage of a response; small, so that no estimate is below it. */
export const USED = { input: 20, output: 10, cache_read: 0, cache_write: 0, reasoning: 0 };

/** The text of a serving upstream. */
export const servedBy = (upstream: string): string => `Served by ${upstream}.`;

const answerOf = (upstream: string) => ({
  said: [{ kind: 'text' as const, text: servedBy(upstream) }],
  used: USED,
  piece: 4,
});

const STREAM_HEAD = { 'content-type': 'text/event-stream; charset=utf-8', 'request-id': 'req_fault' };
const JSON_HEAD = { 'content-type': 'application/json', 'request-id': 'req_fault' };

/** The events of a whole response of this upstream. */
export function eventsBy(protocol: Protocol, upstream: string): string[] {
  return eventsOf(protocol, answerOf(upstream));
}

/** Responds in full. */
export const serves: Play = ({ res, protocol, stream, upstream }) => {
  res.writeHead(200, stream ? STREAM_HEAD : JSON_HEAD);
  res.end(stream ? eventsBy(protocol, upstream).join('') : JSON.stringify(documentOf(protocol, answerOf(upstream))));
};

/** An error document in the words of a protocol. */
export function errorDocument(protocol: Protocol, failure: Failure): string {
  return JSON.stringify(protocol === 'messages' ? messagesError(failure) : chatError(failure));
}

/** Its text for a rejection, beside the status. */
export interface Words {
  readonly message?: string;
  readonly type?: string;
  readonly code?: string;
  readonly retry_after?: string;
}

const failureOf = (status: number, { message = `Refused with ${status}.`, type, code }: Words): Failure => ({
  status,
  message,
  ...(type !== undefined && { type }),
  ...(code !== undefined && { code }),
});

/** Returns a status and an error document. */
export function answers(status: number, words: Words = {}): Play {
  return ({ res, protocol }) => {
    const { retry_after } = words;
    res.writeHead(status, { ...JSON_HEAD, ...(retry_after !== undefined && { 'retry-after': retry_after }) });
    res.end(errorDocument(protocol, failureOf(status, words)));
  };
}

/** An error inside a stream, in the words of a protocol. */
export function errorEvent(protocol: Protocol, failure: Failure, after = 0): string {
  if (protocol === 'messages') return sse(messagesError(failure));
  const { error } = chatError(failure);
  if (protocol === 'chat') return `data: ${JSON.stringify({ error })}\n\n`;
  const { message, code, param } = error;
  return numbered([{ type: 'error', code, message, param }], after).join('');
}

/** Returns 200 with a stream whose first event is this error, and ends. */
export function beginsWithError(status: number, words: Words = {}): Play {
  return ({ res, protocol }) => {
    res.writeHead(200, STREAM_HEAD);
    res.end(errorEvent(protocol, failureOf(status, words)));
  };
}

/** Returns 200 with a stream that ends without an event; comments are none. */
export const endsWithoutEvent: Play = ({ res }) => {
  res.writeHead(200, STREAM_HEAD);
  res.end(': hello\n\n');
};

/** Returns 200 without a body. */
export const saysNothing: Play = ({ res }) => {
  res.writeHead(200, JSON_HEAD);
  res.end();
};

/** Returns a page, as a proxy in front of an upstream does. */
export function page(status: number): Play {
  return ({ res }) => {
    res.writeHead(status, { 'content-type': 'text/html' });
    res.end('<!doctype html><h1>Sorry</h1>');
  };
}

/** Returns a redirect. */
export const redirects: Play = ({ res }) => {
  res.writeHead(302, { location: 'https://id.example/login' });
  res.end();
};

/** Never responds. */
export const hangs: Play = () => {};

/** Resets the connection when the request has arrived. */
export const resets: Play = ({ socket }) => {
  socket.resetAndDestroy();
};

/** Writes the beginning of a streamed response, up to some of its text, and waits until it is out. */
async function writeHalf({ res, protocol, upstream }: Call): Promise<void> {
  res.writeHead(200, STREAM_HEAD);
  const events = eventsBy(protocol, upstream);
  await new Promise<void>((done) => res.write(events.slice(0, 5).join(''), () => done()));
}

/** Streams half of its response and cuts the connection. */
export const cutsOff: Play = async (call) => {
  await writeHalf(call);
  // Bytes written before a reset may never be read.
  setTimeout(() => call.socket.destroy(), 50);
};

/** Streams half of its response and falls silent. */
export const stalls: Play = (call) => writeHalf(call);

/** Streams half of its response, then an error. */
export const failsLate: Play = async (call) => {
  await writeHalf(call);
  call.res.end(errorEvent(call.protocol, failureOf(500, { message: 'Failed halfway.' }), 5));
};

/** Plays one after the other for the requests of a model; the last one from then on. */
export function inTurn(...plays: readonly [Play, ...Play[]]): Play {
  return (call) => plays[Math.min(call.nth, plays.length) - 1]!(call);
}

/** Starts the upstreams on a free port of the loopback address. */
export async function startFaultServer() {
  const plays = new Map<string, Play>();
  const counts = new Map<string, number>();
  const refused: string[] = [];
  const seen: { readonly upstream: string; readonly model: string; readonly received: Received }[] = [];
  const script: Script = async ({ received, res, socket }) => {
    const [, upstream = ''] = received.url.split('/');
    const path = received.url.split('?')[0]!;
    const protocol = PATHS.find(([ending]) => path.endsWith(ending))?.[1];
    if (protocol === undefined) throw new Error(`no upstream has the path ${path}`);
    const body = JSON.parse(received.body.toString());
    const { model, stream } = body;
    try {
      checkRequest(protocol, body);
    } catch (error) {
      refused.push(`${upstream}: ${error}`);
    }
    const key = `${upstream} ${model}`;
    const nth = (counts.get(key) ?? 0) + 1;
    counts.set(key, nth);
    seen.push({ upstream, model, received });
    const play = plays.get(key) ?? plays.get(upstream) ?? serves;
    await play({ received, res, socket, upstream, protocol, stream: stream === true, model, nth });
  };
  const server = await openUpstream(script, await freePort());
  return {
    /** Base URL of the upstream with this name. */
    url: (upstream: string) => `${server.url}/${upstream}`,
    /** The script of each upstream, by name, or by name and model as `name model`; all others serve. */
    plays,
    /** Requests that reached an upstream, for a model where one is named, oldest first. */
    requests: (upstream: string, model?: string): readonly Received[] =>
      seen
        .filter((one) => one.upstream === upstream && (model === undefined || one.model === model))
        .map(({ received }) => received),
    /** Why a real upstream would reject requests, as strict as `model-provider.ts`. */
    refused: refused as readonly string[],
    /** How many requests reached upstreams. */
    total: () => seen.length,
    /** Forgets the requests so far. */
    forget() {
      seen.length = 0;
      refused.length = 0;
      server.requests.length = 0;
      counts.clear();
    },
    /** Cuts every connection and rejects new ones until `resume`. */
    pause: () => server.pause(),
    resume: () => server.resume(),
    close: () => server.close(),
  };
}
