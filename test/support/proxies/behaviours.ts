/**
 * What reverse proxies and company networks do to a gateway behind them, each as a behaviour for `startProxy`.
 * @module
 */
import type { IncomingMessage } from 'node:http';
import { createGzip, gzipSync } from 'node:zlib';
import { type Behaviour, copyHead, type Passage, pairs } from './proxy.ts';

/** Passes everything on as it comes. */
export const passesOn: Behaviour = async ({ res, ask }) => {
  const answer = await ask();
  copyHead(res, answer);
  res.flushHeaders();
  // What left the proxy before the cut has arrived: the end is what is missing.
  answer.on('error', () => res.destroy());
  answer.pipe(res);
};

/** Passes on for some paths only, and behaves otherwise for the rest. */
export function only(path: RegExp, behaviour: Behaviour): Behaviour {
  return (passage) => (path.test(passage.request.url ?? '') ? behaviour(passage) : passesOn(passage));
}

async function whole(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Holds each answer back until it is whole, as nginx does with small ones when `proxy_buffering` is on. */
export const buffersWhole: Behaviour = async ({ res, ask }) => {
  const answer = await ask();
  const body = await whole(answer);
  copyHead(res, answer);
  res.end(body);
};

/** Passes answers on in blocks of a fixed size, wherever those cut the events. */
export function buffersInBlocks(bytes: number): Behaviour {
  return async ({ res, ask }) => {
    const answer = await ask();
    copyHead(res, answer);
    res.flushHeaders();
    let held = Buffer.alloc(0);
    for await (const chunk of answer) {
      held = Buffer.concat([held, chunk]);
      for (; held.length >= bytes; held = held.subarray(bytes)) res.write(held.subarray(0, bytes));
    }
    res.end(held);
  };
}

/** Compresses event streams too, which holds them back until the compressor has enough. */
export const compresses: Behaviour = async ({ res, ask }) => {
  const answer = await ask();
  copyHead(res, answer, { 'content-encoding': 'gzip' });
  res.flushHeaders();
  answer.pipe(createGzip()).pipe(res);
};

/** Compresses whole answers that are no streams, where the client takes that: nothing is wrong with it. */
export const compressesDocuments: Behaviour = async (passage) => {
  const takes = String(passage.request.headers['accept-encoding'] ?? '').includes('gzip');
  const answer = await passage.ask();
  if (!takes || String(answer.headers['content-type']).startsWith('text/event-stream')) {
    copyHead(passage.res, answer);
    return void answer.pipe(passage.res);
  }
  const body = gzipSync(await whole(answer));
  copyHead(passage.res, answer, { 'content-encoding': 'gzip' });
  passage.res.end(body);
};

/** Says the charset of JSON, and writes names of headers in capitals: nothing is wrong with it. */
export const saysCharset: Behaviour = async ({ res, ask }) => {
  const answer = await ask();
  const type = String(answer.headers['content-type'] ?? '');
  const said = type.startsWith('application/json') ? 'application/json; charset=utf-8' : type;
  copyHead(res, answer, { 'content-type': undefined, 'CONTENT-TYPE': said });
  res.flushHeaders();
  answer.pipe(res);
};

/** Sends whoever has no session of its own to a login page elsewhere. */
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

/** Answers everything with a login page, and status 200. */
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

/** Answers everything with an error page of nginx, as when nothing is behind it. */
export function answersErrorPage(status: number): Behaviour {
  return (passage) => answerPage(passage, status);
}

/** Puts a page of its own in place of every error, as `proxy_intercept_errors` does. */
export const replacesErrors: Behaviour = async (passage) => {
  const answer = await passage.ask();
  if ((answer.statusCode ?? 502) >= 400) {
    answer.resume();
    return answerPage(passage, answer.statusCode === 404 ? 403 : 502);
  }
  copyHead(passage.res, answer);
  answer.pipe(passage.res);
};

/** Answers everything with the same JSON and status 200, as a health check does, or a page that has moved. */
export const answersOkToAll: Behaviour = ({ res }) => {
  res.writeHead(200, { 'content-type': 'application/json' });
  res.end('{"status":"ok"}');
};

/** Answers everything with status 200 and nothing. */
export const answersNothing: Behaviour = ({ res }) => {
  res.writeHead(200);
  res.end();
};

/** Takes headers out of requests whose names begin so. */
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
export function cutsStreamsAfter(bytes: number): Behaviour {
  return async ({ res, ask }) => {
    const answer = await ask();
    copyHead(res, answer);
    if (!String(answer.headers['content-type']).startsWith('text/event-stream')) return void answer.pipe(res);
    let left = bytes;
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      const part = chunk.subarray(0, left);
      left -= part.length;
      await new Promise((written) => res.write(part, written));
      if (left <= 0) break;
    }
    res.destroy();
  };
}
