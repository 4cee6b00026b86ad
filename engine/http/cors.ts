import type { IncomingMessage, ServerResponse } from 'node:http';
import type { GatewayConfig } from '../contract/config.ts';
import { sendWhole } from '../run/answer/send-whole.ts';
import { REQUEST_ID_HEADER } from '../run/headers.ts';
import { identityOf } from './request-identity.ts';

/** How long a browser may remember the answer to a preflight; Chromium takes no longer. */
const MAX_AGE_SECONDS = '7200';

/** What pages may read of an answer's head. The star means all of it, and browsers that do not know it get the names. */
const EXPOSED = ['*', REQUEST_ID_HEADER, 'request-id', 'x-request-id', 'retry-after', 'x-should-retry'].join(', ');

/** Names of headers that a preflight asks for; more or longer ones no client of a model API sends. */
const NAME = /^[!#$%&'*+.^_`|~\w-]{1,128}$/;
const NAMES_MAX = 128;

/** Where pages may call models: paths of pipelines, and the rest of the model APIs, whose errors are to be read as well. */
const MODEL_PATHS = '/v1/';

/**
 * Lets pages of `server.cors.origins` read answers at the paths of pipelines (Fetch standard, section 3.3). Browsers are
 * never told to send cookies along: a page sends a token of its own.
 * @returns whether the request was a preflight, and is answered
 */
export type AdmitPages = (
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  pipelines: ReadonlyMap<string, unknown> | undefined,
) => boolean;

/** Makes what admits the pages of a configuration; `undefined` where it names none. */
export function createCors({ server }: Pick<GatewayConfig, 'server'>): AdmitPages | undefined {
  if (server.cors === undefined) return undefined;
  const origins = new Set(server.cors.origins);
  return (req, res, path, pipelines) => {
    if (pipelines === undefined && !path.startsWith(MODEL_PATHS)) return false;
    const { origin, 'access-control-request-method': method } = req.headers;
    const is_listed = origin !== undefined && origins.has(origin);
    // What is kept of an answer for one origin, or for none, is not for another.
    if (is_listed || req.method === 'GET' || req.method === 'HEAD') res.setHeader('vary', 'origin');
    if (!is_listed) return false;
    res.setHeader('access-control-allow-origin', origin);
    if (req.method === 'OPTIONS' && method !== undefined && pipelines?.has('OPTIONS') !== true) {
      answerPreflight(req, res, [...(pipelines?.keys() ?? ['GET', 'POST'])]);
      return true;
    }
    res.setHeader('access-control-expose-headers', EXPOSED);
    return false;
  };
}

function answerPreflight({ headers }: IncomingMessage, res: ServerResponse, methods: readonly string[]): void {
  const asked = String(headers['access-control-request-headers'] ?? '')
    .split(',', NAMES_MAX)
    .map((name) => name.trim())
    .filter((name) => NAME.test(name));
  // A page of the internet that calls a gateway in the network of the company (Private Network Access).
  const is_private = headers['access-control-request-private-network'] === 'true';
  sendWhole(
    res,
    204,
    {
      vary: 'origin, access-control-request-method, access-control-request-headers',
      'access-control-allow-methods': methods.join(', '),
      ...(asked.length > 0 && { 'access-control-allow-headers': asked.join(', ') }),
      'access-control-max-age': MAX_AGE_SECONDS,
      ...(is_private && { 'access-control-allow-private-network': 'true' }),
      [REQUEST_ID_HEADER]: identityOf(res).request_id,
    },
    '',
  );
}
