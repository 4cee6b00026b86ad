import { lookup } from 'node:dns/promises';
import { request as askPlain } from 'node:http';
import { request as askSecure } from 'node:https';
import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type CheckOutcome, failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import { exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../../base/kit/net/format-network-error.ts';
import { printableLine } from '../../../base/kit/text/printable.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { REQUEST_ID_HEADER } from '../../../pipeline/run/headers.ts';
import { PROTOCOL_PATH } from '../../http/sign-in/paths.ts';
import { type Answer, fieldsOf, foreignAnswer, readAnswer } from '../../selfcheck/answer.ts';
import { noAnswer } from '../../selfcheck/ask.ts';
import { probeSignIn } from '../../selfcheck/sign-in-page.ts';
import type { Diagnosis } from '../desk.ts';
import { type Host, placeOf, sizeText } from './host.ts';
import { type DirectAsk, isOfConfiguration, recognise } from './listening.ts';

/** What is asked of the public URL: where it is, and how. */
interface PublicGiven {
  readonly host: Host;
  /** Without a slash at the end. */
  readonly root_url: string;
  readonly where: string;
  readonly ask: DirectAsk;
}

const FROM_USERS = 'ask from a machine of a user as well: curl -i';

/** Whether users who follow `server.public_url` arrive at this gateway, and what proxies on the way do to requests; as it is known. */
export async function* examinePublicUrl(host: Host): AsyncGenerator<Diagnosis> {
  const root_url = issuerOf(host.config);
  const where = placeOf(host, '/server/public_url');
  const ask: DirectAsk = (path, request) => exchange(root_url + path, request);
  const given: PublicGiven = { host, root_url, where, ask };
  const name = await examineName(given);
  yield name;
  if (name.verdict !== 'ok') return;
  const { diagnosis, is_ours } = await examineArrival(given);
  yield diagnosis;
  if (!is_ours) return;
  // One after the other, for what is measured beside others is measured badly.
  for (const examine of [examineModelList, examineSignIn, examineLargeBodies]) yield* await examine(given);
}

async function examineName({ host: { timeout_seconds }, root_url, where }: PublicGiven): Promise<Diagnosis> {
  const { hostname } = new URL(root_url);
  const base = { id: 'public_url.name', title: 'name of the public URL', where };
  const name = hostname.replace(/^\[|\]$/g, '');
  if (isIP(name) !== 0) return ok(`${name} is an address`, base);
  const unknown = (why: string) =>
    warning(
      `${name} can't be looked up from here: ${why}`,
      `enter it into the DNS that users ask; where only theirs knows it, ${FROM_USERS} ${root_url}/healthz`,
      base,
    );
  try {
    const found = await Promise.race([lookup(name, { all: true }), silence(timeout_seconds)]);
    if (found === undefined) return unknown(`no answer within ${timeout_seconds} seconds`);
    const addresses = found.map(({ address }) => address).slice(0, 5);
    return ok(`${name} is ${addresses.join(', ')}`, base);
  } catch (error) {
    return unknown(formatNetworkError(error, timeout_seconds));
  }
}

function silence(seconds: number): Promise<undefined> {
  return delay(seconds * 1000, undefined, { ref: false });
}

async function examineArrival(
  given: PublicGiven,
): Promise<{ readonly diagnosis: Diagnosis; readonly is_ours: boolean }> {
  const { host, root_url, where, ask } = given;
  const { running, config, timeout_seconds } = host;
  const base = { id: 'public_url.gateway', title: 'the public URL leads to this gateway', where };
  const told = (said: CheckOutcome, is_ours = false) => ({ diagnosis: { ...base, ...said }, is_ours });
  const none = skipped('no gateway runs here, so there is nothing for it to lead to');
  let answer: Answer;
  try {
    answer = await readAnswer(await ask(PROTOCOL_PATH, { seconds: timeout_seconds }));
  } catch (error) {
    if (running === undefined) return told(none);
    const { found, remedy } = noAnswer(error, root_url, timeout_seconds);
    return told(warning(found, `${remedy}; else ${FROM_USERS} ${root_url}/healthz`));
  }
  const known = recognise(answer);
  if (known === undefined)
    return running === undefined ? told(none) : told(judgeForeign(answer), await servesClients(given));
  const version = printableLine(known.version);
  if (!isOfConfiguration(config, known)) {
    const found = `it leads to a gateway with another public URL: ${printableLine(known.issuer)}`;
    const remedy =
      'write the same server.public_url in the configuration of both, or correct where the proxy forwards to';
    return told(failed(found, remedy));
  }
  if (running !== undefined && known.version !== running.version) {
    const found = `it leads to version ${version}, and ${printableLine(running.version)} runs here`;
    const remedy = 'upgrade all gateways behind it; while an upgrade is under way this is as it should be';
    return told(warning(found, remedy), true);
  }
  const elsewhere = running === undefined ? ', on another machine: none runs here' : '';
  return told(ok(`it does: version ${version}${elsewhere}`), true);
}

function judgeForeign(answer: Answer): CheckOutcome {
  // The page is Markdown, so what is no JSON is not strange by itself.
  const foreign = answer.status === 200 && answer.text.startsWith('#') ? undefined : foreignAnswer(answer);
  if (foreign !== undefined)
    return failed(`in place of the gateway GET ${PROTOCOL_PATH} is answered by ${foreign.found}`, foreign.remedy);
  return failed(
    `something else answers GET ${PROTOCOL_PATH} (status ${answer.status})`,
    'let the proxy pass everything below the public URL on to the gateway',
  );
}

/** Whether requests of clients arrive all the same, as where a proxy asks people alone to sign in. */
async function servesClients({ ask, host }: PublicGiven): Promise<boolean> {
  try {
    const { status, json, headers } = await readAnswer(await ask('/v1/models', { seconds: host.timeout_seconds }));
    return status === 401 && fieldsOf(json).error !== undefined && headers[REQUEST_ID_HEADER] !== undefined;
  } catch {
    return false;
  }
}

/** Clients wait no longer for the list of models. */
const MODELS_SECONDS = 3;

async function examineModelList({ ask, where }: PublicGiven): Promise<Diagnosis[]> {
  const path = '/v1/models?limit=1000';
  const base = { id: 'public_url.models', title: 'the model list without a credential', where, sent: `GET ${path}` };
  try {
    const answer = await readAnswer(await ask(path, { seconds: MODELS_SECONDS }));
    const { status, total_ms } = answer;
    const foreign = foreignAnswer(answer);
    if (foreign !== undefined) return [failed(`in place of JSON comes ${foreign.found}`, foreign.remedy, base)];
    if (status === 401 || status === 403)
      return [ok(`refused as JSON (status ${status}) after ${Math.round(total_ms)} ms`, base)];
    const found = `it is answered with status ${status}, where the gateway refuses it with 401`;
    const remedy = 'does a proxy on the way add a credential of its own? Then everybody who reaches it is let in';
    return [warning(found, remedy, base)];
  } catch (error) {
    const remedy = 'clients give up after three seconds: look for what takes so long in the proxy';
    return [failed(formatNetworkError(error, MODELS_SECONDS), remedy, base)];
  }
}

/** Whether people get from the sign-in page of the console to the identity provider, where there is one. */
async function examineSignIn({ host, ask, root_url, where }: PublicGiven): Promise<Diagnosis[]> {
  if (host.config.auth?.oidc === undefined) return [];
  const base = { id: 'public_url.sign_in', title: 'sign-in to the console', where };
  const request = { seconds: host.timeout_seconds, headers: { accept: 'text/html' } };
  try {
    return [{ ...base, ...(await probeSignIn({ root_url, get: (path) => ask(path, request) })) }];
  } catch (error) {
    return [skipped(`can't be told: ${formatNetworkError(error, host.timeout_seconds)}`, base)];
  }
}

/** Whether proxies let requests through that are as large as the gateway itself takes; no byte of them is sent. */
async function examineLargeBodies({ host, root_url, where }: PublicGiven): Promise<Diagnosis[]> {
  const { config, timeout_seconds: seconds } = host;
  const { body_bytes } = config.server.limits;
  const base = { id: 'public_url.body_size', title: 'large requests', where };
  const requests = `requests of ${sizeText(body_bytes)} (server.limits.body_bytes)`;
  const status = await announceBody(root_url, { bytes: body_bytes, seconds });
  // The gateway asks for a credential before it takes a body.
  if (status === 100 || status === 401) return [ok(`${requests} are let through`, base)];
  if (status !== 413) {
    const why = status === undefined ? 'no answer in time' : `status ${status}`;
    return [skipped(`whether ${requests} are let through can't be told (${why})`, base)];
  }
  const megabytes = Math.ceil(body_bytes / (1024 * 1024));
  const remedy = `let it take what the gateway takes (nginx: client_max_body_size ${megabytes}m): long sessions and pictures need it`;
  return [failed(`${requests} are refused by a proxy on the way (status 413)`, remedy, base)];
}

/**
 * Announces a large body without a credential and asks whether to send it (RFC 9110 section 10.1.1). What refuses its size says so
 * at once; nothing of it is ever sent. Returns the status, `undefined` where there is none in time.
 */
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
