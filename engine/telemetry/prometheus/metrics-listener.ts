import { hash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { isLoopbackUrl, parseListenAddress } from '../../kit/net/addresses.ts';
import { PROMETHEUS_TYPE } from './prometheus-text.ts';

/** A listener that answers `GET /metrics` and nothing else. */
export interface MetricsListener {
  /** Its address as it was asked for. */
  readonly listen: string;
  /** The port it has, which differs from the one asked for where that is 0. */
  readonly port: number;
  close(): Promise<void>;
}

const PATH = '/metrics';
/** Scrapers are few. */
const CONNECTIONS_MAX = 32;
const HEAD_BYTES = 8 * 1024;
const HEAD_MS = 5000;
/** How often it is looked for connections that send nothing. */
const CHECK_MS = 1000;
/** Longest a scraper may take to read an answer. */
const ANSWER_MS = 30_000;

const compress = promisify(gzip);

/**
 * Starts listening. Rejects with Node's error (EADDRINUSE, EACCES ...).
 * Each answer ends its connection. Without a token only requests to an address of this machine are answered, so that no page
 * in a browser can read them under a name that leads here.
 */
export async function startMetricsListener(options: {
  /** As `telemetry.metrics.listen` has it. */
  readonly listen: string;
  /** The bearer token to ask for; asked each time, because a reload can name another. */
  readonly token: () => string | undefined;
  readonly text: () => Promise<string>;
  /** Is told of an answer that failed. */
  readonly onError: (error: unknown) => void;
}): Promise<MetricsListener> {
  const { listen, token, text, onError } = options;
  const { host, port } = parseListenAddress(listen)!;

  async function answer(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
    const refusal = refusalOf(req, token());
    if (refusal !== undefined) {
      const { status, problem, ...headers } = refusal;
      res.writeHead(status, { ...headers, 'content-type': 'text/plain; charset=utf-8' }).end(`${problem}\n`);
      return;
    }
    const whole = Buffer.from(await text());
    const zipped = /\bgzip\b/.test(req.headers['accept-encoding'] ?? '');
    const body = zipped ? await compress(whole) : whole;
    const headers = {
      'content-type': PROMETHEUS_TYPE,
      'content-length': body.length,
      'cache-control': 'no-store',
      vary: 'accept-encoding',
      ...(zipped && { 'content-encoding': 'gzip' }),
    };
    res.writeHead(200, headers).end(req.method === 'HEAD' ? undefined : body);
  }

  const server = http.createServer({
    maxHeaderSize: HEAD_BYTES,
    headersTimeout: HEAD_MS,
    requestTimeout: HEAD_MS,
    connectionsCheckingInterval: CHECK_MS,
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.setTimeout(ANSWER_MS);
  server.on('request', (req, res) => {
    res.shouldKeepAlive = false;
    req.resume();
    answer(req, res).catch((error) => {
      onError(error);
      if (!res.headersSent) res.writeHead(500, { 'content-type': 'text/plain; charset=utf-8' });
      res.end();
    });
  });
  server.listen(port, host);
  await once(server, 'listening');
  server.on('error', onError);
  const address = server.address();
  return {
    listen,
    port: typeof address === 'object' && address !== null ? address.port : port,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

type Refusal = { readonly status: number; readonly problem: string } & Readonly<Record<string, string | number>>;

function refusalOf(req: http.IncomingMessage, token: string | undefined): Refusal | undefined {
  const { authorization = '', host = '' } = req.headers;
  if (token !== undefined && !isToken(bearerOf(authorization), token))
    return {
      status: 401,
      problem: 'Send the token that telemetry.metrics.token_env names as "Authorization: Bearer <token>".',
      'www-authenticate': 'Bearer realm="metrics"',
    };
  if (token === undefined && !isLoopbackUrl(`http://${host}`))
    return {
      status: 403,
      problem: 'Without telemetry.metrics.token_env, metrics are answered at localhost, 127.0.0.1 and [::1] only.',
    };
  const [path] = (req.url ?? '').split('?');
  if (path !== PATH) return { status: 404, problem: `Nothing is here but ${PATH}.` };
  if (req.method !== 'GET' && req.method !== 'HEAD')
    return { status: 405, problem: `${PATH} is read with GET.`, allow: 'GET, HEAD' };
  return undefined;
}

/** Nothing is the empty token: it would be that of whoever sends none. */
function isToken(sent: string, token: string): boolean {
  return token !== '' && timingSafeEqual(digest(sent), digest(token));
}

/** The token of a header (RFC 6750 section 2.1), whose scheme is written in any case. */
function bearerOf(authorization: string): string {
  return /^bearer +(.*)$/i.exec(authorization)?.[1] ?? '';
}

/** Of one length whatever is sent, for a comparison that takes the same time for all. */
function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
