import tls from 'node:tls';
import { type CheckOutcome, failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import { isLoopbackUrl, urlProblem } from '../../../base/kit/net/addresses.ts';
import { readCertificates } from '../../../base/kit/net/certificates.ts';
import { wayTo } from '../../../base/kit/net/way.ts';
import { printableLine } from '../../../base/kit/text/printable.ts';
import { CLIENTS } from '../../client-files/clients.ts';
import { type Answer, describeJson, errorText, foreignAnswer, readAnswer, shortText } from '../../selfcheck/answer.ts';
import { type Asker, createAsker, noAnswer } from '../../selfcheck/ask.ts';
import { withoutSecrets } from '../../selfcheck/without-secrets.ts';
import type { Connection, Desk, Diagnosis } from '../desk.ts';
import {
  askedModel,
  findModel,
  judgeClock,
  judgeWindow,
  type ListedModel,
  missingModel,
  readModels,
  refusedToken,
  tokenTextProblem,
} from './judgements.ts';

const LIST = '/v1/models?limit=1000';
/** How long the Messages client waits for the list. */
const LIST_SECONDS = 3;
/** For everything that is asked with one token. */
const TOTAL_SECONDS = 120;
/** No gateway takes it; sent where no client has a token that can be tried. */
const NO_TOKEN = '';

/** Longest time of one step, in seconds: slower than clients wait, so that a slow gateway is told from one that is away. */
const SECONDS = 10;

/** One gateway that is looked at, from one desk. */
interface Inquiry {
  readonly desk: Desk;
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  /** Those of the clients that use it. */
  readonly connections: readonly Connection[];
  /** Longest time of a step. */
  readonly seconds: number;
}

/** What is looked at, by the last part of its id. */
const TITLES = {
  address: 'Address of the gateway',
  models: 'List of models',
  token: 'Token',
  clock: 'Clock',
  model: 'Model',
  context_window: 'Context window',
} as const;

/** Writes outcomes as diagnoses of a gateway, without the tokens of its clients. */
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

/**
 * What is wrong between this machine and the gateways of some clients, and with their tokens. Nothing that is asked costs
 * anything, and a token goes to the gateway of its client only, never over a connection that is not trusted. Never raises.
 */
export async function examineGateway(
  desk: Desk,
  connections: readonly Connection[],
  { seconds = SECONDS }: { readonly seconds?: number } = {},
): Promise<Diagnosis[]> {
  const alike = Map.groupBy(connections, ({ root_url }) => root_url.replace(/\/+$/, ''));
  const diagnoses: Diagnosis[] = [];
  for (const [root_url, own] of alike) {
    const problem = urlProblem(root_url, 'base');
    if (problem !== undefined) {
      const outcome = failed(`it is no address of a gateway: ${problem}`, 'write https://gateway.example.com');
      diagnoses.push(diagnose({ root_url: withoutSecretParts(root_url), connections: own }, 'address', outcome));
      continue;
    }
    const url = new URL(root_url);
    const inquiry: Inquiry = { desk, root_url: url.href.replace(/\/+$/, ''), connections: own, seconds };
    // Clients send the token all the same, and so it is tried.
    if (url.protocol === 'http:' && !isLoopbackUrl(root_url)) {
      const found = `${url.host} is spoken to over http: everybody on the way can read the token and every prompt`;
      const remedy = `put TLS in front of the gateway, and give clients https://${url.hostname}`;
      diagnoses.push(diagnose(inquiry, 'address', warning(found, remedy)));
    }
    diagnoses.push(...(await askGateway(inquiry)));
  }
  return diagnoses;
}

/** What is no address may hold a password. */
function withoutSecretParts(text: string): string {
  return printableLine(text.slice(0, 200))
    .replace(/\/\/[^/]*@/, '//***@')
    .replace(/[?#].*$/, '');
}

async function askGateway(inquiry: Inquiry): Promise<Diagnosis[]> {
  const { desk, root_url, seconds } = inquiry;
  const by_token = Map.groupBy(inquiry.connections, ({ token }) => token ?? NO_TOKEN);
  const diagnoses: Diagnosis[] = [];
  for (const [token, connections] of by_token) {
    const clients = [...new Set(connections.map(({ client }) => CLIENTS[client].title))];
    const named = by_token.size === 1 ? {} : { of: clients.join(', ') };
    const told = { ...inquiry, connections };
    const problem = token === NO_TOKEN ? undefined : tokenTextProblem(token);
    if (problem !== undefined) {
      diagnoses.push(diagnose(told, 'token', problem, named));
      continue;
    }
    const asker = createAsker({
      root_url,
      token,
      header_prefixes: [...new Set(['vendor', desk.names.messages.variable_prefix.toLowerCase()])],
      seconds,
      total_seconds: TOTAL_SECONDS,
      wayTo: (url) => wayTo(url, desk.env),
      // Node.js 20 has no such function.
      ca: [...(tls.getCACertificates?.('default') ?? tls.rootCertificates), ...connections.flatMap(authoritiesIn)],
    });
    try {
      const with_clock = diagnoses.every(({ id }) => id !== 'gateway.clock');
      const asked = await askWithToken(told, asker, { token, named, with_clock });
      diagnoses.push(...asked.diagnoses);
      if (!asked.goes_on) break;
    } finally {
      asker.close();
    }
  }
  return diagnoses;
}

/** The authorities of a client; what a file does not hold the client does not know either. */
function authoritiesIn({ authorities = [] }: Connection): string[] {
  return authorities.flatMap((file) => {
    try {
      return readCertificates(file);
    } catch {
      return [];
    }
  });
}

/** What the list of models says. */
interface Asked {
  readonly diagnoses: readonly Diagnosis[];
  /** Whether it is of any use to ask with another token. */
  readonly goes_on: boolean;
}

async function askWithToken(
  inquiry: Inquiry,
  asker: Asker,
  {
    token,
    named,
    with_clock,
  }: { readonly token: string; readonly named: { readonly of?: string }; readonly with_clock: boolean },
): Promise<Asked> {
  const { desk, root_url, seconds, connections } = inquiry;
  const asked_at = desk.now();
  let answer: Answer;
  try {
    answer = await readAnswer(await asker.ask({ path: LIST, ...(token === NO_TOKEN ? { token: null } : {}) }));
  } catch (error) {
    return { diagnoses: [diagnose(inquiry, 'models', noAnswer(error, root_url, seconds))], goes_on: false };
  }
  const models = readModels(answer);
  const diagnoses = [diagnose(inquiry, 'models', judgeList(answer, models, connections), named)];
  const clock = judgeClock(answer.headers, asked_at + answer.head_ms / 2);
  if (with_clock && clock !== undefined) diagnoses.push(diagnose(inquiry, 'clock', clock));
  const is_json = foreignAnswer(answer) === undefined;
  if (is_json && (answer.status === 401 || answer.status === 403) && token !== NO_TOKEN) {
    const refused = refusedToken(answer, { token, root_url, now: desk.now() });
    diagnoses.push(diagnose(inquiry, 'token', refused, named));
  }
  if (models === undefined || token === NO_TOKEN) return { diagnoses, goes_on: is_json };
  diagnoses.push(diagnose(inquiry, 'token', await judgeTaken(asker, models), named));
  for (const connection of connections.flatMap(eachModel)) {
    diagnoses.push(...(await judgeModel(inquiry, asker, connection, models)));
  }
  return { diagnoses, goes_on: true };
}

function judgeList(
  answer: Answer,
  models: readonly ListedModel[] | undefined,
  connections: readonly Connection[],
): CheckOutcome {
  const { status, total_ms } = answer;
  const foreign = foreignAnswer(answer);
  if (foreign !== undefined) return failed(`in place of JSON comes ${foreign.found}`, foreign.remedy);
  if (models === undefined && status !== 401 && status !== 403) return judgeNoList(answer);
  const took = total_ms < 1000 ? `${Math.round(total_ms)} ms` : `${(total_ms / 1000).toFixed(1)} seconds`;
  if (total_ms <= LIST_SECONDS * 1000)
    return ok(models === undefined ? `a refusal in JSON within ${took}` : `${models.length} models within ${took}`);
  const found = `the list of models took ${took}; the Messages client gives up after ${LIST_SECONDS} and finds none, without a word`;
  const remedy =
    'look for what is slow: the way (VPN, proxy), or the gateway, which should not ask its upstreams for the list each time';
  // One that is told its model needs no list.
  const hits = connections.some(({ client, model }) => client === 'messages' && model === undefined);
  return hits ? failed(found, remedy) : warning(found, remedy);
}

function judgeNoList({ status, json }: Answer): CheckOutcome {
  const said = errorText(json) ?? describeJson(json);
  if (status === 404 || status === 405 || status === 501) {
    return warning(
      `there is no list of models at this address (status ${status}: ${said})`,
      'is it the root of the gateway, without /v1 or another path? If it has no list, write the model into the files of clients',
    );
  }
  if (status === 429 || status === 503)
    return warning(`the gateway has no room now (status ${status}: ${said})`, 'try it again in a minute');
  return failed(
    `in place of a list of models comes status ${status}: ${said}`,
    status >= 500 ? 'look into the log of the gateway' : 'is this the address of a model gateway?',
  );
}

/** A list that everybody is given says nothing about a token. */
async function judgeTaken(asker: Asker, models: readonly ListedModel[]): Promise<CheckOutcome> {
  const open = await asker.ask({ path: LIST, token: null }).then(readAnswer, () => undefined);
  return open !== undefined && readModels(open) !== undefined
    ? skipped('the gateway gives its list of models to everybody, so it does not show whether the token is good')
    : ok(`the gateway takes it, and has ${models.length} ${models.length === 1 ? 'model' : 'models'} for it`);
}

/** The window that a client believes in is that of its main model. */
function eachModel(connection: Connection): Connection[] {
  const { more_models = [], fixWindow: _, ...others } = connection;
  return [connection, ...more_models.map((model) => ({ ...others, model, context_window: undefined }))];
}

async function judgeModel(
  inquiry: Inquiry,
  asker: Asker,
  connection: Connection,
  models: readonly ListedModel[],
): Promise<Diagnosis[]> {
  const model = askedModel(connection);
  if (model === undefined || model === '') return [];
  const of = { of: CLIENTS[connection.client].title };
  const listed = findModel(models, model);
  if (listed === undefined) {
    const path = `/v1/models/${encodeURIComponent(model)}`;
    const answer = await asker.ask({ path }).then(readAnswer, () => undefined);
    return [diagnose(inquiry, 'model', missingModel(model, models, answer), of)];
  }
  const found = diagnose(inquiry, 'model', ok(`the gateway has ${shortText(listed.id, 80)} for this token`), of);
  const window = judgeWindow(connection, listed);
  if (window === undefined) return [found];
  const { fixes } = window.verdict === 'ok' ? {} : (connection.fixWindow?.(listed.context_window!) ?? {});
  return [found, diagnose(inquiry, 'context_window', window, { ...of, ...(fixes !== undefined && { fixes }) })];
}
