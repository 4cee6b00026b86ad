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

/** Largest page of a model list. */
const LISTED_MAX = 1000;

/** A model at a gateway. */
export interface CheckedModel {
  readonly id: string;
  /** In tokens; `undefined` if unknown. */
  readonly context_window: number | undefined;
}

/**
 * Checks a client's credential, and a model if named, at the gateway. Raises StartError with a remedy if the client would
 * not work.
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
      const reason = sentence(fieldsOf(fieldsOf(safeToShow(answer.body)).error).message) ?? 'no reason given';
      const why = /[.!?]$/.test(reason) ? reason : `${reason}.`;
      throw new StartError(
        `${root_url} rejects the credential: ${why} Create a token (appscli tokens create) and use it`,
        { exit_code: EXIT_FINDINGS },
      );
    }
    if (answer.kind === 'json' && (answer.status === 200 || answer.status === 404)) return answer;
    throw new StartError(
      `${root_url} responds to GET ${path} with status ${answer.status} and no model list; check the address of the gateway`,
    );
  };

  if (model !== undefined) {
    const { status, body } = await get(`/v1/models/${encodeURIComponent(model)}`);
    const found = fieldsOf(safeToShow(body));
    if (status === 200) return { id: String(found.id ?? model), context_window: windowOf(found) };
  }
  // Some gateways lack the path of a single model.
  const list = fieldsOf(safeToShow((await get(`/v1/models?limit=${LISTED_MAX}`)).body));
  const entries = Array.isArray(list.data) ? list.data.map(fieldsOf) : [];
  if (model === undefined) return undefined;
  const entry = entries.find(({ id }) => id === model);
  if (entry !== undefined) return { id: model, context_window: windowOf(entry) };
  throw notThere(root_url, model, entries);
}

function windowOf({ context_window, max_input_tokens }: Readonly<Record<string, unknown>>): number | undefined {
  const tokens = context_window ?? max_input_tokens;
  return typeof tokens === 'number' && tokens > 0 ? tokens : undefined;
}

function notThere(root_url: string, model: string, entries: readonly Readonly<Record<string, unknown>>[]): StartError {
  const ids = entries.flatMap(({ id }) => (typeof id === 'string' ? [id] : []));
  const remedy =
    ids.length === 0
      ? 'its token group allows no model: ask for a token of a group with models'
      : `${didYouMean(model, ids) ?? `this token may use ${listed(ids)}.`} For another model ask for a token of a group that allows it`;
  return new StartError(`${root_url} has no model "${model}" for this token: ${remedy}`, { exit_code: EXIT_FINDINGS });
}

/** Checks the set-up at the gateway (`--check`). Returns the model's context window: as given, else by the gateway. */
export async function checkSpec(
  context: CommandContext,
  spec: SetUpSpec,
  options: ClientOptions & { readonly contextWindow?: number },
  how: {
    /** The telemetry signals in the client's current file. */
    readonly sends: () => readonly Signal[];
    readonly more_models?: readonly string[];
    /** Whether the client's file must contain the context window. */
    readonly needs_window: boolean;
  },
): Promise<number | undefined> {
  const wanted = options.contextWindow;
  if (!options.check) return wanted ?? learnWindow(context, spec, options, how);
  const { root_url, credential, telemetry } = spec;
  const warn = warner(context.terminal);
  const signals = telemetry ?? how.sends();
  if (telemetry === undefined) warn(describeSent(signals, root_url));
  if ('sign_in' in credential) {
    await discover(createAsk(), root_url);
    warn(`${root_url} supports sign-in from a terminal`);
    return wanted;
  }
  const token = await tokenOf(credential, root_url, context);
  const found = await checkModel({ root_url, token, model: options.model });
  if (found === undefined) warn(`${root_url} accepts the token`);
  else warn(`${root_url} serves ${found.id} to this token`);
  for (const model of new Set(how.more_models)) {
    if (model !== options.model) await checkModel({ root_url, token, model });
  }
  for (const line of await checkTelemetry({ root_url, token, signals })) warn(line);
  const window = found?.context_window;
  if (window === undefined || wanted === undefined) return window ?? wanted;
  if (wanted > window)
    warn(
      `${found!.id} takes ${window} tokens, less than ${wanted}: long sessions will fail; use --context-window ${window}`,
    );
  return wanted;
}

/** Default context window, in tokens, as clients assume. A too small one only compacts early. */
export const ASSUMED_WINDOW = 200_000;

/** The model's context window at the gateway. Failures fall back to the default. */
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
    `unknown context window of ${model} at ${root_url}: using ${ASSUMED_WINDOW} tokens; see --check, or set --context-window`,
  );
  return ASSUMED_WINDOW;
}

function describeSent(signals: readonly Signal[], root_url: string): string {
  return signals.length === 0
    ? `the client's file sends no telemetry to ${root_url}; enable it with --telemetry`
    : `the client's file sends ${signals.join(' and ')} to ${root_url}`;
}
