import { request as askPlain } from 'node:http';
import { request as askSecure } from 'node:https';
import { type CheckOutcome, failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import { fieldsOf } from '../../../base/kit/json/fields.ts';
import { exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../../base/kit/net/format-network-error.ts';
import { printableLine } from '../../../base/kit/text/printable.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { REQUEST_ID_HEADER } from '../../../pipeline/run/headers.ts';
import { PATHS } from '../../http/sign-in/paths.ts';
import { type Answer, nonApiResponse, readAnswer, shortText } from '../../selfcheck/answer.ts';
import { checkWithoutToken } from '../../selfcheck/checks.ts';
import { noResponse } from '../../selfcheck/run.ts';
import type { Diagnosis } from '../workstation.ts';
import { type DirectAsk, type Host, placeOf, recognise } from './host.ts';

interface PublicUrlProbe {
  readonly host: Host;
  readonly root_url: string;
  readonly where: string;
  readonly ask: DirectAsk;
}

const FROM_USERS = "Then test it from a user's machine: curl -i";

/** Whether `server.public_url` leads to this gateway, and what proxies on the way change. Yields each result as soon as it is known. */
export async function* checkPublicUrl(host: Host): AsyncGenerator<Diagnosis> {
  const root_url = issuerOf(host.config);
  const where = placeOf(host, '/server/public_url');
  const ask: DirectAsk = (path, request) => exchange(root_url + path, request);
  const probe: PublicUrlProbe = { host, root_url, where, ask };
  const { diagnosis, is_ours } = await checkDestination(probe);
  yield diagnosis;
  if (!is_ours) return;
  // In sequence: concurrent requests would distort the measured times.
  for (const check of [checkModelList, checkSignIn, checkBodySize]) yield* await check(probe);
}

async function checkDestination(probe: PublicUrlProbe) {
  const { host, root_url, where, ask } = probe;
  const { running, timeout_seconds } = host;
  const base = { id: 'public_url.gateway', title: 'destination of the public URL', where };
  const result = (outcome: CheckOutcome, is_ours = false) => ({ diagnosis: { ...base, ...outcome }, is_ours });
  const none = skipped('no gateway runs here');
  let answer: Answer;
  try {
    answer = await readAnswer(await ask(PATHS.protocol, { seconds: timeout_seconds }));
  } catch (error) {
    if (running === undefined) return result(none);
    const { found, remedy } = noResponse(error, root_url, timeout_seconds);
    return result(warning(found, `${remedy}. ${FROM_USERS} ${root_url}/healthz`));
  }
  const known = recognise(answer);
  if (known === undefined)
    return running === undefined ? result(none) : result(classifyNonApiResponse(answer), await servesClients(probe));
  const version = printableLine(known.version);
  if (known.issuer !== root_url) {
    const found = `leads to a gateway with another public URL: ${printableLine(known.issuer)}`;
    const remedy = 'use the same server.public_url in both configurations, or correct the target of the proxy';
    return result(failed(found, remedy));
  }
  if (running !== undefined && known.version !== running.version) {
    const found = `leads to version ${version}, but ${printableLine(running.version)} runs here`;
    const remedy = 'upgrade all gateways behind it; during an upgrade this is normal';
    return result(warning(found, remedy), true);
  }
  const elsewhere = running === undefined ? ', on another machine (none runs here)' : '';
  return result(ok(`this gateway, version ${version}${elsewhere}`), true);
}

function classifyNonApiResponse(answer: Answer): CheckOutcome {
  // The page is Markdown, so a response without JSON is normal.
  const foreign = answer.status === 200 && answer.text.startsWith('#') ? undefined : nonApiResponse(answer);
  if (foreign !== undefined)
    return failed(`GET ${PATHS.protocol} does not reach the gateway, but returns ${foreign.found}`, foreign.remedy);
  return failed(
    `another server responds to GET ${PATHS.protocol} (status ${answer.status})`,
    'configure the proxy to forward everything below the public URL to the gateway',
  );
}

async function servesClients({ ask, host }: PublicUrlProbe): Promise<boolean> {
  try {
    const { status, json, headers } = await readAnswer(await ask('/v1/models', { seconds: host.timeout_seconds }));
    return status === 401 && fieldsOf(json).error !== undefined && headers[REQUEST_ID_HEADER] !== undefined;
  } catch {
    return false;
  }
}

/** Whether the model list is rejected without a credential, as the self-check tests it. */
async function checkModelList({ ask, host, root_url, where }: PublicUrlProbe): Promise<Diagnosis[]> {
  const base = { id: 'public_url.models', title: 'model list without a credential', where };
  try {
    const outcome = await checkWithoutToken({ ask: ({ path }) => ask(path, { seconds: host.timeout_seconds }) });
    return [{ ...base, ...outcome }];
  } catch (error) {
    return [{ ...base, ...noResponse(error, root_url, host.timeout_seconds) }];
  }
}

async function checkSignIn({ host, ask, root_url, where }: PublicUrlProbe): Promise<Diagnosis[]> {
  if (host.config.auth?.oidc === undefined) return [];
  const base = { id: 'public_url.sign_in', title: 'sign-in to the console', where };
  const request = { seconds: host.timeout_seconds, headers: { accept: 'text/html' } };
  try {
    const answer = await readAnswer(await ask(PATHS.console_sign_in, request));
    return [{ ...base, ...classifySignIn(root_url, answer) }];
  } catch (error) {
    return [skipped(`unknown: ${formatNetworkError(error, host.timeout_seconds)}`, base)];
  }
}

function classifySignIn(root_url: string, answer: Answer): CheckOutcome {
  const { location = '' } = answer.headers;
  const to = URL.canParse(location, root_url) ? new URL(location, root_url) : undefined;
  if (to?.searchParams.has('client_id') !== true) {
    const { found } = nonApiResponse(answer) ?? { found: `status ${answer.status}` };
    const remedy = `make the proxy forward ${PATHS.console_sign_in} and ${PATHS.callback} with the host and port of the request (nginx: proxy_set_header Host $http_host), without its own redirect or sign-in`;
    return failed(`expected a redirect to the identity provider, got ${found}`, remedy);
  }
  const back = to.searchParams.get('redirect_uri');
  if (back === null || back === new URL(`${root_url}${PATHS.callback}`).href)
    return ok(`redirects to the identity provider at ${shortText(to.origin)}`);
  const remedy = 'correct server.public_url, or the target of the proxy';
  return failed(`the redirect URI ${shortText(back)} is not below this address`, remedy);
}

/** Whether proxies accept requests as large as the gateway does. Sends no body. */
async function checkBodySize({ host, root_url, where }: PublicUrlProbe): Promise<Diagnosis[]> {
  const { config, timeout_seconds: seconds } = host;
  const { body_bytes } = config.server.limits;
  const base = { id: 'public_url.body_size', title: 'large requests', where };
  const mebibytes = Math.ceil(body_bytes / (1024 * 1024));
  const requests = `requests of ${mebibytes} MiB (server.limits.body_bytes)`;
  const status = await announceBody(root_url, { bytes: body_bytes, seconds });
  // The gateway requires a credential before it accepts a body.
  if (status === 100 || status === 401) return [ok(`proxies accept ${requests}`, base)];
  if (status !== 413) {
    const why = status === undefined ? 'no response in time' : `status ${status}`;
    return [skipped(`unknown whether proxies accept ${requests} (${why})`, base)];
  }
  const remedy = `raise its limit to the gateway's (nginx: client_max_body_size ${mebibytes}m): long sessions and images need it`;
  return [failed(`a proxy on the way rejects ${requests} (status 413)`, remedy, base)];
}

/** Announces a body with `Expect: 100-continue` (RFC 9110 section 10.1.1); sends none. `undefined` if late. */
export function announceBody(
  root_url: string,
  { bytes, seconds }: { readonly bytes: number; readonly seconds: number },
): Promise<number | undefined> {
  const headers = { 'content-type': 'application/json', 'content-length': String(bytes), expect: '100-continue' };
  const signal = AbortSignal.timeout(seconds * 1000);
  return new Promise((resolve) => {
    const ask = root_url.startsWith('https:') ? askSecure : askPlain;
    const request = ask(`${root_url}/v1/messages`, { method: 'POST', headers, agent: false, signal });
    const end = (status: number | undefined) => {
      resolve(status);
      request.destroy();
    };
    request.on('continue', () => end(100));
    request.on('response', ({ statusCode }) => end(statusCode));
    request.on('error', () => resolve(undefined));
    request.flushHeaders();
  });
}
