import http, { type IncomingHttpHeaders } from 'node:http';
import https from 'node:https';
import { createSecureContext, getCACertificates } from 'node:tls';
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
const CONNECTIONS = 2;

/** Texts in PEM: who signs certificates of the destination, beside those that everybody trusts, and what the gateway shows of itself. */
export interface PostTls {
  readonly ca?: readonly string[] | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
}

/** Opens a way to one origin, on connections of its own. Redirects are answers like others. Raises Error for a certificate that is none. */
export function openPost(origin: string, { ca, certificate, key }: PostTls): { readonly post: Post; close(): void } {
  const is_tls = origin.startsWith('https:');
  const pool = { keepAlive: true, maxSockets: CONNECTIONS };
  const tls = {
    ...(ca && { ca: [...getCACertificates('default'), ...ca] }),
    ...(certificate && { cert: certificate }),
    ...(key && { key }),
  };
  if (is_tls) createSecureContext(tls);
  const agent = is_tls ? new https.Agent({ ...pool, ...tls }) : new http.Agent(pool);
  const { request } = is_tls ? https : http;
  const post: Post = (path, headers, body, signal) =>
    new Promise((resolve, reject) => {
      const framed = { ...headers, 'content-length': body.length };
      const sent = request(origin + path, { method: 'POST', agent, headers: framed, signal }, (answer) => {
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
