import tls from 'node:tls';
import { type CheckOutcome, failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import { fieldsOf } from '../../../base/kit/json/fields.ts';
import { isLoopbackUrl, urlProblem } from '../../../base/kit/net/addresses.ts';
import { readCertificates } from '../../../base/kit/net/certificates.ts';
import { proxyRouteTo } from '../../../base/kit/net/proxy-route.ts';
import { printableLine } from '../../../base/kit/text/printable.ts';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import { CLIENTS } from '../../client-files/clients.ts';
import { type Answer, describeJson, errorText, nonApiResponse, readAnswer, shortText } from '../../selfcheck/answer.ts';
import { MODELS_PATH } from '../../selfcheck/check.ts';
import { type ListedModel, listedModels } from '../../selfcheck/models.ts';
import { createGatewayClient, type GatewayClient, noResponse } from '../../selfcheck/run.ts';
import { withoutSecrets } from '../../selfcheck/without-secrets.ts';
import type { Connection, Diagnosis, Workstation } from '../workstation.ts';

/** How long the Messages client waits for the list. */
const LIST_SECONDS = 3;
/** For all requests with one token. */
const TOTAL_SECONDS = 120;
/** Stands for clients without a token to try; their requests have no credential. */
const NO_TOKEN = '';

/** Timeout of one request, in seconds: longer than clients wait, to distinguish a slow gateway from an unreachable one. */
const SECONDS = 10;

interface Inquiry {
  readonly workstation: Workstation;
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  readonly connections: readonly Connection[];
  readonly seconds: number;
}

const TITLES = {
  address: 'Address of the gateway',
  models: 'List of models',
  token: 'Token',
  model: 'Model',
  context_window: 'Context window',
} as const;

function diagnose(
  { root_url, connections }: Pick<Inquiry, 'root_url' | 'connections'>,
  what: keyof typeof TITLES,
  outcome: CheckOutcome,
  more: { readonly of?: string } & Pick<Diagnosis, 'fixes'> = {},
): Diagnosis {
  const { of, ...fixes } = more;
  const title = of === undefined ? TITLES[what] : `${TITLES[what]} of the ${of}`;
  const tokens = connections.flatMap(({ token }) => (token === undefined ? [] : [token]));
  return withoutSecrets({ id: `gateway.${what}`, title, where: root_url, ...outcome, ...fixes }, tokens);
}

/** Diagnoses gateways and tokens for free. A token goes only to its client's gateway, over a trusted connection. */
export async function diagnoseGateway(
  workstation: Workstation,
  connections: readonly Connection[],
  { seconds = SECONDS }: { readonly seconds?: number } = {},
): Promise<Diagnosis[]> {
  const alike = Map.groupBy(connections, ({ root_url }) => root_url.replace(/\/+$/, ''));
  const diagnoses: Diagnosis[] = [];
  for (const [root_url, own] of alike) {
    const problem = urlProblem(root_url, 'base');
    if (problem !== undefined) {
      const outcome = failed(`not a gateway address: ${problem}`, 'write https://gateway.example.com');
      diagnoses.push(diagnose({ root_url: withoutSecretParts(root_url), connections: own }, 'address', outcome));
      continue;
    }
    const url = new URL(root_url);
    const inquiry: Inquiry = { workstation, root_url: url.href.replace(/\/+$/, ''), connections: own, seconds };
    // Clients send the token anyway, so the diagnosis does too.
    if (url.protocol === 'http:' && !isLoopbackUrl(root_url)) {
      const found = `${url.host} is used over http: everyone on the network path can read the token and all prompts`;
      const remedy = `put TLS in front of the gateway, and give clients https://${url.hostname}`;
      diagnoses.push(diagnose(inquiry, 'address', warning(found, remedy)));
    }
    diagnoses.push(...(await askGateway(inquiry)));
  }
  return diagnoses;
}

/** An invalid address may still contain a password. */
function withoutSecretParts(text: string): string {
  return printableLine(text.slice(0, 200))
    .replace(/\/\/[^/]*@/, '//***@')
    .replace(/[?#].*$/, '');
}

async function askGateway(inquiry: Inquiry): Promise<Diagnosis[]> {
  const { workstation, root_url, seconds } = inquiry;
  const by_token = Map.groupBy(inquiry.connections, ({ token }) => token ?? NO_TOKEN);
  const diagnoses: Diagnosis[] = [];
  for (const [token, connections] of by_token) {
    const clients = [...new Set(connections.map(({ client }) => CLIENTS[client].title))];
    const named = by_token.size === 1 ? {} : { of: clients.join(', ') };
    const scope = { ...inquiry, connections };
    if (!/^[\x21-\x7e]*$/.test(token)) {
      const found = 'the token contains a space or a character that HTTP headers cannot carry';
      const problem = failed(found, 'paste the token exactly as you received it');
      diagnoses.push(diagnose(scope, 'token', problem, named));
      continue;
    }
    const gateway = createGatewayClient({
      root_url,
      token,
      header_prefixes: [...new Set(['vendor', workstation.names.messages.variable_prefix.toLowerCase()])],
      seconds,
      total_seconds: TOTAL_SECONDS,
      proxyRouteTo: (url) => proxyRouteTo(url, workstation.env),
      // Node.js 20 lacks getCACertificates.
      ca: [...(tls.getCACertificates?.('default') ?? tls.rootCertificates), ...connections.flatMap(authoritiesIn)],
    });
    try {
      const result = await askWithToken(scope, gateway, token, named);
      diagnoses.push(...result.diagnoses);
      if (!result.goes_on) break;
    } finally {
      gateway.close();
    }
  }
  return diagnoses;
}

/** The extra CA certificates of a client. A file that cannot be read adds none, as in the client. */
function authoritiesIn({ authorities = [] }: Connection): string[] {
  return authorities.flatMap((file) => {
    try {
      return readCertificates(file);
    } catch {
      return [];
    }
  });
}

async function askWithToken(inquiry: Inquiry, gateway: GatewayClient, token: string, named: { readonly of?: string }) {
  const { workstation, root_url, seconds, connections } = inquiry;
  let answer: Answer;
  try {
    answer = await readAnswer(await gateway.ask({ path: MODELS_PATH, ...(token === NO_TOKEN ? { token: null } : {}) }));
  } catch (error) {
    return { diagnoses: [diagnose(inquiry, 'models', noResponse(error, root_url, seconds))], goes_on: false };
  }
  const models = listedModels(answer);
  const diagnoses = [diagnose(inquiry, 'models', evaluateList(answer, models, connections), named)];
  const is_json = nonApiResponse(answer) === undefined;
  if (is_json && (answer.status === 401 || answer.status === 403) && token !== NO_TOKEN) {
    const refused = refusedToken(answer, token, root_url, workstation.now());
    diagnoses.push(diagnose(inquiry, 'token', refused, named));
  }
  if (models === undefined || token === NO_TOKEN) return { diagnoses, goes_on: is_json };
  diagnoses.push(diagnose(inquiry, 'token', await evaluateToken(gateway, models), named));
  for (const connection of connections.flatMap(eachModel)) {
    diagnoses.push(...(await evaluateModel(inquiry, gateway, connection, models)));
  }
  return { diagnoses, goes_on: true };
}

function evaluateList(
  answer: Answer,
  models: readonly ListedModel[] | undefined,
  connections: readonly Connection[],
): CheckOutcome {
  const { status, total_ms } = answer;
  const foreign = nonApiResponse(answer);
  if (foreign !== undefined) return failed(`expected JSON, got ${foreign.found}`, foreign.remedy);
  if (models === undefined && status !== 401 && status !== 403) return evaluateMissingList(answer);
  const took = total_ms < 1000 ? `${Math.round(total_ms)} ms` : `${(total_ms / 1000).toFixed(1)} seconds`;
  if (total_ms <= LIST_SECONDS * 1000)
    return ok(models === undefined ? `rejected in JSON within ${took}` : `${models.length} models within ${took}`);
  const found = `the model list took ${took}; the Messages client gives up after ${LIST_SECONDS} seconds and silently finds no models`;
  const remedy =
    'find what is slow: the network (VPN, proxy), or the gateway, which should not query its upstreams for every list';
  // A client with a configured model needs no list.
  const hits = connections.some(({ client, model }) => client === 'messages' && model === undefined);
  return hits ? failed(found, remedy) : warning(found, remedy);
}

function evaluateMissingList({ status, json }: Answer): CheckOutcome {
  const reason = errorText(json) ?? describeJson(json);
  if (status === 404 || status === 405 || status === 501) {
    return warning(
      `no model list at this address (status ${status}: ${reason})`,
      'use the root address of the gateway, without /v1 or another path. If the gateway has no list, configure the model in each client',
    );
  }
  if (status === 429 || status === 503)
    return warning(`the gateway is overloaded (status ${status}: ${reason})`, 'try again in a minute');
  return failed(
    `expected a model list, got status ${status}: ${reason}`,
    status >= 500 ? 'see the log of the gateway' : 'check that this is the address of a model gateway',
  );
}

/** Whether the gateway accepted the token. A list that is public proves nothing. */
async function evaluateToken(gateway: GatewayClient, models: readonly ListedModel[]): Promise<CheckOutcome> {
  const open = await gateway.ask({ path: MODELS_PATH, token: null }).then(readAnswer, () => undefined);
  return open !== undefined && listedModels(open) !== undefined
    ? skipped('the model list is public, so it does not show whether the token is valid')
    : ok(`accepted; ${models.length} ${models.length === 1 ? 'model' : 'models'} available`);
}

function eachModel(connection: Connection): Connection[] {
  const { more_models = [], fixWindow: _, ...others } = connection;
  return [connection, ...more_models.map((model) => ({ ...others, model, context_window: undefined }))];
}

/** The entry for a model: its own, or a wildcard such as `vendor/*`. */
export function findModel(models: readonly ListedModel[], model: string): ListedModel | undefined {
  const isWildcard = ({ id }: ListedModel) => id.endsWith('*') && model.startsWith(id.slice(0, -1));
  return models.find(({ id }) => id === model) ?? models.find(isWildcard);
}

async function evaluateModel(
  inquiry: Inquiry,
  gateway: GatewayClient,
  connection: Connection,
  models: readonly ListedModel[],
): Promise<Diagnosis[]> {
  // A suffix in brackets, such as `[1m]`, stays in the Messages client.
  const model = connection.client === 'messages' ? connection.model?.replace(/\[[^\]]*\]$/, '') : connection.model;
  if (model === undefined || model === '') return [];
  const of = { of: CLIENTS[connection.client].title };
  const listed = findModel(models, model);
  if (listed === undefined) {
    const path = `/v1/models/${encodeURIComponent(model)}`;
    const answer = await gateway.ask({ path }).then(readAnswer, () => undefined);
    return [diagnose(inquiry, 'model', missingModel(model, models, answer), of)];
  }
  const found = diagnose(inquiry, 'model', ok(`the gateway serves ${shortText(listed.id, 80)} to this token`), of);
  const window = evaluateWindow(connection, listed);
  if (window === undefined) return [found];
  const { fixes } = window.verdict === 'ok' ? {} : (connection.fixWindow?.(listed.context_window!) ?? {});
  return [found, diagnose(inquiry, 'context_window', window, { ...of, ...(fixes !== undefined && { fixes }) })];
}

/** The outcome for a model that the list lacks. `answer` is the response to `GET /v1/models/<model>`. */
function missingModel(model: string, models: readonly ListedModel[], answer: Answer | undefined): CheckOutcome {
  const name = shortText(model, 80);
  const ids = models.map(({ id }) => shortText(id, 80));
  const alone = answer?.status === 200 ? fieldsOf(answer.json).id : undefined;
  if (alone === model) return ok(`the gateway serves ${name} to this token, although its list omits it`);
  if (ids.length === 0) {
    return failed(
      `this token may use no model, so ${name} is "not found": its token group allows none`,
      'ask your gateway administrator for a token of a group that allows models',
    );
  }
  const suggestion = didYouMean(model, ids);
  const others = `This token may use ${listed(ids).replace(/ or ([^,]*)$/, ' and $1')}. For another model ask your gateway administrator for a token of a group that allows it`;
  const remedy = suggestion === undefined ? others : `${suggestion} ${others}`;
  // Other gateways return 404 because they lack the path.
  return answer?.status === 404 && fieldsOf(fieldsOf(answer.json).error).code === 'model_not_found'
    ? failed(
        `the gateway has no model "${name}" for this token: its token group does not allow it, or the name is wrong`,
        remedy,
      )
    : warning(`the model "${name}" is not on the gateway's list for this token`, remedy);
}

function evaluateWindow(
  { context_window: configured, fixWindow }: Connection,
  model: ListedModel,
): CheckOutcome | undefined {
  const { context_window: window } = model;
  if (window === undefined) return undefined;
  const id = shortText(model.id, 80);
  const remedy = `set the context window of the client to ${window}, and its compaction limit to ${Math.floor(window * 0.95)}`;
  if (configured === undefined)
    return fixWindow && warning(`the client has no context window for ${id}, which takes ${window} tokens`, remedy);
  if (configured <= window) return ok(`${configured} tokens, and ${id} takes ${window}`);
  return failed(
    `the client is configured for ${configured} tokens, but ${id} takes ${window}: long sessions fail before they are compacted`,
    remedy,
  );
}

/** The unverified `exp` claim of a session token, in milliseconds since the epoch; `undefined` for other tokens. */
function sessionEnd(token: string): number | undefined {
  const [, claims = ''] = /^[\w-]+\.([\w-]{2,8192})\.[\w-]+$/.exec(token) ?? [];
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'));
    return typeof exp === 'number' && exp > 0 && exp < 1e11 ? exp * 1000 : undefined;
  } catch {
    return undefined;
  }
}

/** Why a gateway rejected a token: by its error code, and by the token's own expiry. */
function refusedToken(answer: Answer, token: string, root_url: string, now: number): CheckOutcome {
  const message = errorText(answer.json);
  const details = [message === undefined ? 'the gateway gave no message' : `message of the gateway: ${message}`];
  const { code } = fieldsOf(fieldsOf(answer.json).error);
  const login = `sign in again: appscli login --base-url ${root_url}`;
  const ends = sessionEnd(token);
  const is_session = ends !== undefined;
  const is_over = is_session && ends <= now;
  if (code === 'credential_missing') {
    return failed(
      'the token did not arrive: a proxy on the way removes the authorization header',
      'configure the proxy to forward the authorization header, and not to replace it with its own sign-in',
      { details },
    );
  }
  if (code === 'credential_revoked') {
    const remedy = 'follow the message of the gateway, or ask your gateway administrator for a new token';
    return is_session
      ? failed('the token was revoked', login, { details })
      : failed('the token was revoked or suspended', remedy, { details });
  }
  if (code === 'credential_expired' || is_over) {
    const since = is_over ? `, on ${new Date(ends).toISOString()}` : '';
    const remedy = is_session ? login : 'create a new token, or ask your gateway administrator for one';
    return failed(`${is_session ? 'the sign-in' : 'the token'} has expired${since}`, remedy, { details });
  }
  if (answer.status === 403) {
    const found = 'the gateway accepts the token, but does not let it list models';
    return failed(found, 'ask your gateway administrator what the token allows', { details });
  }
  const remedy = `check that it is complete, and from this gateway instead of a model provider; ${is_session ? login : 'otherwise create a new token, or ask for one'}`;
  return failed(`the gateway does not know the token (status ${answer.status})`, remedy, { details });
}
