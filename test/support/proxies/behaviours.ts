/** Effects of reverse proxies and company networks on a gateway behind them, each as a behaviour for `startProxy`. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { createGzip, gzipSync } from 'node:zlib';
import { type Behaviour, copyHead, type Passage, pairs } from './proxy.ts';

/** Passes the head of each response on at once, with changes, and its body in some way. */
const relays =
  (pass: (response: IncomingMessage, res: ServerResponse) => unknown, headers = {}): Behaviour =>
  async ({ res, ask }) => {
    const response = await ask();
    copyHead(res, response, headers);
    res.flushHeaders();
    await pass(response, res);
  };

/** Passes everything on unchanged. */
export const passesOn = relays((response, res) => {
  // Bytes sent before the cut have arrived: only the end is missing.
  response.on('error', () => res.destroy());
  response.pipe(res);
});

/** Passes on for some paths only, and behaves otherwise for the rest. */
export function only(path: RegExp, behaviour: Behaviour): Behaviour {
  return (passage) => (path.test(passage.request.url ?? '') ? behaviour(passage) : passesOn(passage));
}

/** Buffers each response until it is whole, as nginx does with small ones when `proxy_buffering` is on. */
export const buffersWhole: Behaviour = async ({ res, ask }) => {
  const response = await ask();
  const body = await buffer(response);
  copyHead(res, response);
  res.end(body);
};

/** Passes responses on in blocks of a fixed size, wherever those cut the events. */
export const buffersInBlocks = (bytes: number) =>
  relays(async (response, res) => {
    let buffered = Buffer.alloc(0);
    for await (const chunk of response) {
      buffered = Buffer.concat([buffered, chunk]);
      for (; buffered.length >= bytes; buffered = buffered.subarray(bytes)) res.write(buffered.subarray(0, bytes));
    }
    res.end(buffered);
  });

/** Compresses event streams too, which delays them until the compressor has enough. */
export const compresses = relays((response, res) => response.pipe(createGzip()).pipe(res), {
  'content-encoding': 'gzip',
});

/** Compresses whole responses that are no streams, where the client supports that: it is correct. */
export const compressesDocuments: Behaviour = async (passage) => {
  const takes = String(passage.request.headers['accept-encoding'] ?? '').includes('gzip');
  const response = await passage.ask();
  if (!takes || String(response.headers['content-type']).startsWith('text/event-stream')) {
    copyHead(passage.res, response);
    return void response.pipe(passage.res);
  }
  const body = gzipSync(await buffer(response));
  copyHead(passage.res, response, { 'content-encoding': 'gzip' });
  passage.res.end(body);
};

/** Adds the charset of JSON, and writes names of headers in capitals: it is correct. */
export const saysCharset: Behaviour = async ({ res, ask }) => {
  const response = await ask();
  const type = String(response.headers['content-type'] ?? '');
  const said = type.startsWith('application/json') ? 'application/json; charset=utf-8' : type;
  copyHead(res, response, { 'content-type': undefined, 'CONTENT-TYPE': said });
  res.flushHeaders();
  response.pipe(res);
};

/** Sends every client without a session of its own to a login page elsewhere. */
export function redirectsToLogin(location: string): Behaviour {
  return ({ res }) => {
    res.writeHead(302, { location, 'content-type': 'text/html' });
    res.end('<html><head><title>302 Found</title></head><body><h1>302 Found</h1></body></html>');
  };
}

const LOGIN_PAGE = `<!DOCTYPE html>
<html><head><title>Sign in - Example Corp</title></head>
<body><form method="post" action="/login"><input name="username"><input type="password" name="password">
<button>Sign in</button></form></body></html>`;

/** Returns a login page for everything, with status 200. */
export const showsLoginPage: Behaviour = ({ res }) => {
  res.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
  res.end(LOGIN_PAGE);
};

const REASONS: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  413: 'Request Entity Too Large',
  502: 'Bad Gateway',
  503: 'Service Temporarily Unavailable',
  504: 'Gateway Time-out',
};

/** An error page as nginx has it. */
export function nginxPage(status: number): string {
  const said = `${status} ${REASONS[status]}`;
  return `<html>\r\n<head><title>${said}</title></head>\r\n<body>\r\n<center><h1>${said}</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n`;
}

function answerPage({ res }: Passage, status: number): void {
  res.writeHead(status, { server: 'nginx/1.22.1', 'content-type': 'text/html' });
  res.end(nginxPage(status));
}

/** Returns an error page of nginx for everything, as without a server behind it. */
export function answersErrorPage(status: number): Behaviour {
  return (passage) => answerPage(passage, status);
}

/** Puts a page of its own in place of every error, as `proxy_intercept_errors` does. */
export const replacesErrors: Behaviour = async (passage) => {
  const response = await passage.ask();
  if ((response.statusCode ?? 502) >= 400) {
    response.resume();
    return answerPage(passage, response.statusCode === 404 ? 403 : 502);
  }
  copyHead(passage.res, response);
  response.pipe(passage.res);
};

/** Returns the same JSON and status 200 for everything, as a health check does, or a page that has moved. */
export const answersOkToAll: Behaviour = ({ res }) => {
  res.writeHead(200, { 'content-type': 'application/json' });
  res.end('{"status":"ok"}');
};

/** Returns status 200 and nothing for everything. */
export const answersNothing: Behaviour = ({ res }) => {
  res.writeHead(200);
  res.end();
};

/** Removes headers of requests by the beginning of their names. */
export function stripsHeaders(...beginnings: readonly string[]): Behaviour {
  return changesHeaders((name) => !beginnings.some((beginning) => name.startsWith(beginning)));
}

/** Writes another value into a header of requests. */
export function setsHeader(name: string, value: string): Behaviour {
  return changesHeaders((known) => known !== name, [name, value]);
}

function changesHeaders(keep: (name: string) => boolean, more: readonly string[] = []): Behaviour {
  return async (passage) => {
    const kept = pairs(passage.request.rawHeaders).filter(([name]) => keep(name.toLowerCase()));
    const ask: Passage['ask'] = (changes) => passage.ask({ ...changes, headers: [...kept.flat(), ...more] });
    await passesOn({ ...passage, ask });
  };
}

/** Reads the JSON of requests and writes it anew, as a firewall that inspects bodies does. */
export function rewritesJson(change: (body: Record<string, unknown>) => unknown = (body) => body): Behaviour {
  return async (passage) => {
    const { body } = passage;
    const anew = body.length === 0 ? body : Buffer.from(JSON.stringify(change(JSON.parse(body.toString())), null, 1));
    await passesOn({ ...passage, ask: (changes) => passage.ask({ ...changes, body: anew }) });
  };
}

/** Cuts each stream after so many bytes of it. */
export const cutsStreamsAfter = (bytes: number) =>
  relays(async (response, res) => {
    if (!String(response.headers['content-type']).startsWith('text/event-stream')) return void response.pipe(res);
    let left = bytes;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      const part = chunk.subarray(0, left);
      left -= part.length;
      await new Promise((written) => res.write(part, written));
      if (left <= 0) break;
    }
    res.destroy();
  });
