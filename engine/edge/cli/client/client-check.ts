import type { Signal } from '../../../base/contract/client-telemetry.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import { fieldsOf, safeToShow } from '../../client/answers.ts';
import { discover } from '../../client/device-sign-in.ts';
import { createAsk, sentence } from '../../client/http.ts';
import type { SetUpSpec } from '../../client-files/clients.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS } from '../exit-codes.ts';
import { warner } from '../program-name.ts';
import { type ClientOptions, PLACEHOLDER, tokenOf } from './client-options.ts';
import { checkTelemetry } from './client-telemetry.ts';

/** The largest page of models. */
const LISTED_MAX = 1000;

/** What a gateway says about a model. */
export interface CheckedModel {
  readonly id: string;
  /** In tokens, where the gateway says so. */
  readonly context_window: number | undefined;
}

/**
 * Asks a gateway about a model with the credential a client will use; without a model, whether the credential is good.
 * Raises StartError that says what to do when the client would not work.
 */
export async function checkModel(options: {
  readonly root_url: string;
  readonly token: string;
  readonly model: string | undefined;
}): Promise<CheckedModel | undefined> {
  const { root_url, token, model } = options;
  const ask = createAsk();
  const get = async (path: string) => {
    const answer = await ask('GET', `${root_url}${path}`, { headers: { authorization: `Bearer ${token}` } });
    if (answer.status === 401 || answer.status === 403) {
      const said = sentence(fieldsOf(fieldsOf(safeToShow(answer.body)).error).message) ?? 'it does not say why';
      const why = /[.!?]$/.test(said) ? said : `${said}.`;
      throw new StartError(
        `${root_url} refuses the credential: ${why} Make a token (appscli tokens create) and give that one`,
        { exit_code: EXIT_FINDINGS },
      );
    }
    if (answer.kind === 'json' && (answer.status === 200 || answer.status === 404)) return answer;
    throw new StartError(
      `${root_url} answers GET ${path} with status ${answer.status} and no list of models; is it the address of a gateway?`,
    );
  };

  if (model !== undefined) {
    const { status, body } = await get(`/v1/models/${encodeURIComponent(model)}`);
    const found = fieldsOf(safeToShow(body));
    if (status === 200) return { id: String(found.id ?? model), context_window: windowOf(found) };
  }
  // Not every gateway answers for a single model.
  const list = fieldsOf(safeToShow((await get(`/v1/models?limit=${LISTED_MAX}`)).body));
  const entries = Array.isArray(list.data) ? list.data.map(fieldsOf) : [];
  if (model === undefined) return undefined;
  const entry = entries.find(({ id }) => id === model);
  if (entry !== undefined) return { id: model, context_window: windowOf(entry) };
  throw notThere(root_url, model, entries);
}

function windowOf({ context_window, max_input_tokens }: Readonly<Record<string, unknown>>): number | undefined {
  const said = context_window ?? max_input_tokens;
  return typeof said === 'number' && said > 0 ? said : undefined;
}

function notThere(root_url: string, model: string, entries: readonly Readonly<Record<string, unknown>>[]): StartError {
  const ids = entries.flatMap(({ id }) => (typeof id === 'string' ? [id] : []));
  const remedy =
    ids.length === 0
      ? 'its token group may use no model at all: ask for a token of a group that may'
      : `${didYouMean(model, ids) ?? `this token may use ${listed(ids)}.`} For another model ask for a token of a group that may use it`;
  return new StartError(`${root_url} has no model "${model}" for this token: ${remedy}`, { exit_code: EXIT_FINDINGS });
}

/** Says what a gateway knows better than the command line; returns the window of the model, where one of both tells it. */
export async function checkSpec(
  context: CommandContext,
  spec: SetUpSpec,
  given: ClientOptions & { readonly contextWindow?: number },
  how: {
    /** The signals that the client sends by its file as it is. */
    readonly sends: () => readonly Signal[];
    readonly more_models?: readonly string[];
    /** Whether the client's file must say how large the window of the model is. */
    readonly needs_window: boolean;
  },
): Promise<number | undefined> {
  const wanted = given.contextWindow;
  if (!given.check) return wanted ?? learnWindow(context, spec, given, how);
  const { root_url, credential, telemetry } = spec;
  const warn = warner(context.terminal);
  const signals = telemetry ?? how.sends();
  if (telemetry === undefined) warn(describeSent(signals, root_url));
  if ('sign_in' in credential) {
    await discover(createAsk(), root_url);
    warn(`${root_url} takes sign-ins from a terminal`);
    return wanted;
  }
  const token = await tokenOf(credential, root_url, context);
  const found = await checkModel({ root_url, token, model: given.model });
  if (found === undefined) warn(`${root_url} takes the token`);
  else warn(`${root_url} has ${found.id} for this token`);
  for (const model of new Set(how.more_models)) {
    if (model !== given.model) await checkModel({ root_url, token, model });
  }
  for (const line of await checkTelemetry({ root_url, token, signals })) warn(line);
  const window = found?.context_window;
  if (window === undefined || wanted === undefined) return window ?? wanted;
  if (wanted > window)
    warn(
      `the gateway says ${found!.id} takes ${window} tokens, less than ${wanted}: long sessions will fail; give --context-window ${window}`,
    );
  return wanted;
}

/** The window of a model that nobody gave and no gateway tells, in tokens: what clients assume. A smaller one only shortens early. */
export const ASSUMED_WINDOW = 200_000;

/** The window that the gateway has for the model, where it can be asked; whatever keeps it from that is no reason to stop. */
async function learnWindow(
  context: CommandContext,
  { root_url, credential }: SetUpSpec,
  { model }: ClientOptions,
  { needs_window }: { readonly needs_window: boolean },
): Promise<number | undefined> {
  if (model === undefined) return undefined;
  try {
    if (!('sign_in' in credential) && !('token' in credential && credential.token === PLACEHOLDER)) {
      const token = await tokenOf(credential, root_url, context);
      const found = await checkModel({ root_url, token, model });
      if (found?.context_window !== undefined) return found.context_window;
    }
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
  }
  if (!needs_window) return undefined;
  warner(context.terminal)(
    `${root_url} does not say how many tokens ${model} takes: ${ASSUMED_WINDOW} is assumed; --check says why, --context-window says better`,
  );
  return ASSUMED_WINDOW;
}

function describeSent(signals: readonly Signal[], root_url: string): string {
  return signals.length === 0
    ? `by its file the client sends no telemetry to ${root_url}; --telemetry switches it on`
    : `by its file the client sends its ${signals.join(' and ')} to ${root_url}`;
}
