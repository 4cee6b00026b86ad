import type { CheckOutcome } from '../../contract/checks.ts';
import { type Answer, describeJson, errorText, foreignAnswer, readAnswer, shortText } from '../../selfcheck/answer.ts';
import { type Asker, createAsker, noAnswer } from '../../selfcheck/ask.ts';
import { CLIENT_TITLES } from '../desk.ts';
import type { Connection, Diagnosis } from '../diagnosis.ts';
import { judgeClock } from './clock.ts';
import { clientsOf, diagnose, type Inquiry } from './inquiry.ts';
import { askedModel, findModel, judgeWindow, type ListedModel, missingModel, readModels } from './models.ts';
import { examineTelemetry } from './telemetry.ts';
import { refusedToken } from './token.ts';
import { tokenTextProblem } from './token-text.ts';

const LIST = '/v1/models?limit=1000';
/** How long the Messages client waits for the list. */
const LIST_SECONDS = 3;
/** For everything that is asked with one token. */
const TOTAL_SECONDS = 120;
/** No gateway takes it; sent where no client has a token that can be tried. */
const NO_TOKEN = '';

/** Asks a gateway what clients ask it, with their tokens: nothing of it costs anything. */
export async function askGateway(inquiry: Inquiry, ca: readonly string[] | undefined): Promise<Diagnosis[]> {
  const by_token = Map.groupBy(inquiry.connections, ({ token }) => token ?? NO_TOKEN);
  const diagnoses: Diagnosis[] = [];
  let is_telemetry_known = false;
  for (const [token, connections] of by_token) {
    const of =
      by_token.size === 1
        ? undefined
        : clientsOf(connections)
            .map((client) => CLIENT_TITLES[client])
            .join(', ');
    const told = { ...inquiry, connections };
    const problem = token === NO_TOKEN ? undefined : tokenTextProblem(token);
    if (problem !== undefined) {
      diagnoses.push(diagnose(told, 'token', problem, named(of)));
      continue;
    }
    const asker = openAsker(inquiry, token, ca);
    try {
      const asked = await askWithToken(told, asker, {
        token,
        of,
        with_clock: diagnoses.every(({ id }) => id !== 'gateway.clock'),
      });
      diagnoses.push(...asked.diagnoses);
      if (asked.models !== undefined && token !== NO_TOKEN && !is_telemetry_known) {
        is_telemetry_known = true;
        const telemetry = await examineTelemetry(asker).catch((error) =>
          noAnswer(error, inquiry.root_url, inquiry.seconds),
        );
        diagnoses.push(diagnose(told, 'telemetry', telemetry));
      }
      if (!asked.goes_on) break;
    } finally {
      asker.close();
    }
  }
  return diagnoses;
}

const named = (of: string | undefined) => (of === undefined ? {} : { of });

const prefixesOf = ({ desk }: Inquiry) => [...new Set(['vendor', desk.names.messages.variable_prefix.toLowerCase()])];

function openAsker(inquiry: Inquiry, token: string, ca: readonly string[] | undefined): Asker {
  const { root_url, way, seconds } = inquiry;
  return createAsker({
    root_url,
    token,
    header_prefixes: prefixesOf(inquiry),
    seconds,
    total_seconds: TOTAL_SECONDS,
    wayTo: () => ({ proxy: way.proxy, by: way.variable ?? '' }),
    ...(ca === undefined ? {} : { ca }),
  });
}

/** What the list of models says. */
interface Asked {
  readonly diagnoses: readonly Diagnosis[];
  /** Of the token; `undefined` where it got none. */
  readonly models: readonly ListedModel[] | undefined;
  /** Whether it is of any use to ask with another token. */
  readonly goes_on: boolean;
}

async function askWithToken(
  inquiry: Inquiry,
  asker: Asker,
  { token, of, with_clock }: { readonly token: string; readonly of: string | undefined; readonly with_clock: boolean },
): Promise<Asked> {
  const { desk, root_url, seconds, connections } = inquiry;
  const asked_at = desk.now();
  let answer: Answer;
  try {
    answer = await readAnswer(await asker.ask({ path: LIST, ...(token === NO_TOKEN ? { token: null } : {}) }));
  } catch (error) {
    const { verdict, found, remedy } = noAnswer(error, root_url, seconds);
    return {
      diagnoses: [diagnose(inquiry, 'models', { verdict, found, ...(remedy && { remedy }) })],
      models: undefined,
      goes_on: false,
    };
  }
  const models = readModels(answer);
  const diagnoses = [diagnose(inquiry, 'models', judgeList(answer, models, connections), named(of))];
  const clock = judgeClock(answer.headers, {
    asked_at,
    answered_at: asked_at + answer.head_ms,
    platform: desk.platform,
  });
  if (with_clock && clock !== undefined) diagnoses.push(diagnose(inquiry, 'clock', clock));
  const is_json = foreignAnswer(answer) === undefined;
  if (is_json && (answer.status === 401 || answer.status === 403) && token !== NO_TOKEN) {
    const refused = refusedToken(answer, { token, root_url, now: desk.now() });
    diagnoses.push(diagnose(inquiry, 'token', refused, named(of)));
  }
  if (models === undefined || token === NO_TOKEN) return { diagnoses, models: undefined, goes_on: is_json };
  diagnoses.push(diagnose(inquiry, 'token', await judgeTaken(asker, models), named(of)));
  for (const connection of connections.flatMap(eachModel)) {
    diagnoses.push(...(await judgeModel(inquiry, asker, connection, models)));
  }
  return { diagnoses, models, goes_on: true };
}

function judgeList(
  answer: Answer,
  models: readonly ListedModel[] | undefined,
  connections: readonly Connection[],
): CheckOutcome {
  const { status, total_ms } = answer;
  const foreign = foreignAnswer(answer);
  if (foreign !== undefined) {
    return { verdict: 'failed', found: `in place of JSON comes ${foreign.found}`, remedy: foreign.remedy };
  }
  if (models === undefined && status !== 401 && status !== 403) return judgeNoList(answer);
  const took = total_ms < 1000 ? `${Math.round(total_ms)} ms` : `${(total_ms / 1000).toFixed(1)} seconds`;
  if (total_ms > LIST_SECONDS * 1000) {
    // One that is told its model needs no list.
    const hits = connections.some(({ client, model }) => client === 'messages' && model === undefined);
    return {
      verdict: hits ? 'failed' : 'warning',
      found: `the list of models took ${took}; the Messages client gives up after ${LIST_SECONDS} and finds none, without a word`,
      remedy:
        'look for what is slow: the way (VPN, proxy), or the gateway, which should not ask its upstreams for the list each time',
    };
  }
  return {
    verdict: 'ok',
    found: models === undefined ? `a refusal in JSON within ${took}` : `${models.length} models within ${took}`,
  };
}

function judgeNoList({ status, json }: Answer): CheckOutcome {
  const said = errorText(json) ?? describeJson(json);
  if (status === 404 || status === 405 || status === 501) {
    return {
      verdict: 'warning',
      found: `there is no list of models at this address (status ${status}: ${said})`,
      remedy:
        'is it the root of the gateway, without /v1 or another path? If it has no list, write the model into the files of clients',
    };
  }
  if (status === 429 || status === 503) {
    return {
      verdict: 'warning',
      found: `the gateway has no room now (status ${status}: ${said})`,
      remedy: 'try it again in a minute',
    };
  }
  return {
    verdict: 'failed',
    found: `in place of a list of models comes status ${status}: ${said}`,
    remedy: status >= 500 ? 'look into the log of the gateway' : 'is this the address of a model gateway?',
  };
}

/** A list that everybody is given says nothing about a token. */
async function judgeTaken(asker: Asker, models: readonly ListedModel[]): Promise<CheckOutcome> {
  const open = await asker.ask({ path: LIST, token: null }).then(readAnswer, () => undefined);
  if (open !== undefined && readModels(open) !== undefined) {
    return {
      verdict: 'skipped',
      found: 'the gateway gives its list of models to everybody, so it does not show whether the token is good',
    };
  }
  return {
    verdict: 'ok',
    found: `the gateway takes it, and has ${models.length} ${models.length === 1 ? 'model' : 'models'} for it`,
  };
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
  const of = { of: CLIENT_TITLES[connection.client] };
  const listed = findModel(models, model);
  if (listed === undefined) {
    const path = `/v1/models/${encodeURIComponent(model)}`;
    const answer = await asker.ask({ path }).then(readAnswer, () => undefined);
    return [diagnose(inquiry, 'model', missingModel(model, models, answer), of)];
  }
  const found = diagnose(
    inquiry,
    'model',
    { verdict: 'ok', found: `the gateway has ${shortText(listed.id, 80)} for this token` },
    of,
  );
  const window = judgeWindow(connection, listed);
  if (window === undefined) return [found];
  const { fixes } = window.verdict === 'ok' ? {} : (connection.fixWindow?.(listed.context_window!) ?? {});
  return [found, diagnose(inquiry, 'context_window', window, { ...of, ...(fixes !== undefined && { fixes }) })];
}
