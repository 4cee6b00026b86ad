import http, { type IncomingHttpHeaders } from 'node:http';
import https from 'node:https';
import { createSecureContext, getCACertificates } from 'node:tls';
import {
  NoTunnel,
  openTlsTunnelInTime,
  optionsTo,
  PROXY_REFUSES,
  placeOf,
  writtenForProxy,
} from '../kit/net/tunnel.ts';
import { TunnelAgent } from '../kit/net/tunnel-agent.ts';
import { DIRECT, type Way } from '../kit/net/way.ts';
import { readAll } from '../kit/read-all.ts';

/** An answer to a POST. */
export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Empty where it was too long or broke off. */
  readonly body: Buffer;
}

/** Whether it is a page for people, as sites answer whatever they are asked; no collector does. */
export function isPage({ headers }: Pick<Answered, 'headers'>): boolean {
  return /^\s*(?:text\/html|application\/xhtml\+xml)\b/i.test(headers['content-type'] ?? '');
}

/** Sends one body. Rejects where no answer begins until the signal is given. */
export type Post = (
  path: string,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
  signal: AbortSignal,
) => Promise<Answered>;

/** An answer is read for what it says was not taken, and so that its connection can be used again. */
const ANSWER_BYTES_MAX = 65_536;
/** Connections to one destination. */
const CONNECTIONS = 4;

/** Texts in PEM: who signs certificates of the destination, beside those that everybody trusts, and what the gateway shows of itself. */
export interface PostTls {
  readonly ca?: readonly string[] | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
}

/** Opens a way to one origin, directly or through an HTTP proxy, on connections of its own. Redirects are answers like others. Raises Error for a certificate that is none. */
export function openPost(
  origin: string,
  { ca, certificate, key }: PostTls,
  { proxy }: Pick<Way, 'proxy'> = DIRECT,
): { readonly post: Post; close(): void } {
  const is_tls = origin.startsWith('https:');
  const pool = { keepAlive: true, maxSockets: CONNECTIONS };
  const tls = {
    ...(ca && { ca: [...getCACertificates('default'), ...ca] }),
    ...(certificate && { cert: certificate }),
    ...(key && { key }),
  };
  if (is_tls) createSecureContext(tls);
  const place = placeOf(new URL(origin));
  const for_proxy = writtenForProxy(new URL(origin), proxy);
  const is_secure = (for_proxy?.proxy.protocol ?? new URL(origin).protocol) === 'https:';
  const agentOf = (): http.Agent => {
    if (is_tls && proxy !== undefined) return new TunnelAgent(pool, () => openTlsTunnelInTime(place, proxy, tls));
    if (is_tls) return new https.Agent({ ...pool, ...tls });
    return is_secure ? new https.Agent(pool) : new http.Agent(pool);
  };
  const agent = agentOf();
  const { request } = is_secure ? https : http;
  const post: Post = (path, headers, body, signal) =>
    new Promise((resolve, reject) => {
      const framed = { ...headers, 'content-length': body.length };
      const by_proxy = for_proxy && { ...optionsTo(for_proxy.proxy), path: origin + path };
      const options = { method: 'POST', agent, headers: { ...framed, ...for_proxy?.headers }, signal, ...by_proxy };
      const sent = request(origin + path, options, (answer) => {
        if (for_proxy !== undefined && answer.statusCode === PROXY_REFUSES) {
          answer.destroy();
          reject(new NoTunnel(PROXY_REFUSES, for_proxy.proxy, answer.headers));
          return;
        }
        // A body that is let go of before its end fails, and an error that nobody listens to ends the process.
        answer.on('error', () => {});
        // Its status has said what became of the batch, whatever comes of the rest.
        sent.off('error', reject).on('error', () => {});
        readAll(answer, ANSWER_BYTES_MAX, () => new Error('too long'))
          .catch(() => Buffer.alloc(0))
          .then((read) => {
            if (!answer.complete) answer.destroy();
            resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: read });
          });
      });
      sent.on('error', reject).end(body);
    });
  return { post, close: () => agent.destroy() };
}
