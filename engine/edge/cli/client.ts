import { readdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { InvalidArgumentError, Option } from 'commander';
import { SIGNALS, type Signal } from '../../base/contract/client-telemetry.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { systemClock } from '../../base/kit/clock.ts';
import { failFile, makeDirectory } from '../../base/kit/files/user-files.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import { isLoopbackUrl } from '../../base/kit/net/addresses.ts';
import { PACKAGE_ROOT, packageGateway } from '../../base/kit/package-root.ts';
import { isPrintableLine, jsonText } from '../../base/kit/text/printable.ts';
import { didYouMean, listed } from '../../base/kit/text/suggest.ts';
import { safeToShow } from '../client/answers.ts';
import { chooseBaseUrl, withoutApiPath } from '../client/base-url.ts';
import { freshCredentials, openCredentials } from '../client/credentials.ts';
import { discover } from '../client/device-sign-in.ts';
import { createAsk, sentence } from '../client/http.ts';
import { BrokenFile, inFile } from '../client-files/broken-file.ts';
import {
  CLIENTS,
  type ClientKind,
  type ClientPlan,
  type Credential,
  type Draft,
  planClient,
  planRemoval,
  rowWarnings,
  type SetUpSpec,
  shellVariables,
  TIERS,
} from '../client-files/clients.ts';
import { type ClientPlatform, type KeyHelper, PLATFORMS, platformOf } from '../client-files/key-helper.ts';
import { type ClientNames, clientNames, pathOfFile } from '../client-files/names.ts';
import { SHELLS, type Shell, shellLines, shellOf } from '../client-files/shell-lines.ts';
import { showDiff, withoutCredentials } from '../client-files/show-diff.ts';
import {
  BEARER_HEADER,
  HEADERS_VARIABLE,
  howToAuthenticate,
  signalsIn,
  telemetryWarnings,
} from '../client-files/telemetry.ts';
import { readUserFile, writeUserFiles } from '../client-files/user-file.ts';
import {
  baseUrl,
  type CommandContext,
  type CommandRow,
  choice,
  configurationError,
  EXIT_FINDINGS,
  EXIT_OK,
  type Flags,
  json,
  notEmpty,
  numberThat,
  option,
  required,
  type Texts,
  textThat,
  usageError,
} from './commands.ts';
import { defaultProfile, NEUTRAL_NAMES_NOTE, NEUTRAL_PROFILE, profileOf } from './profiles.ts';
import { hint, type Input, processInput, type Terminal, warner } from './terminal.ts';

const LISTED_MAX = 1000;

/** Checks a client's credential, and a model if named, at the gateway. Raises StartError with a remedy. */
async function checkModel(root_url: string, token: string, model: string | undefined) {
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
async function checkSpec(
  context: CommandContext,
  spec: SetUpSpec,
  options: SetUpOptions,
  how: { sends(): readonly Signal[]; readonly more_models: readonly string[]; readonly needs_window: boolean },
): Promise<number | undefined> {
  const wanted = options.contextWindow;
  if (!options.check) return wanted ?? learnWindow(context, spec, options.model, how.needs_window);
  const { root_url, credential, telemetry } = spec;
  const warn = warner(context.terminal);
  const signals = telemetry ?? how.sends();
  if (telemetry === undefined)
    warn(
      signals.length === 0
        ? `the client's file sends no telemetry to ${root_url}; enable it with --telemetry`
        : `the client's file sends ${signals.join(' and ')} to ${root_url}`,
    );
  if ('sign_in' in credential) {
    await discover(createAsk(), root_url);
    warn(`${root_url} supports sign-in from a terminal`);
    return wanted;
  }
  const token = await tokenOf(credential, root_url, context);
  const found = await checkModel(root_url, token, options.model);
  if (found === undefined) warn(`${root_url} accepts the token`);
  else warn(`${root_url} serves ${found.id} to this token`);
  for (const model of new Set(how.more_models)) {
    if (model !== options.model) await checkModel(root_url, token, model);
  }
  for (const line of await checkTelemetry(root_url, token, signals)) warn(line);
  const window = found?.context_window;
  if (window === undefined || wanted === undefined) return window ?? wanted;
  if (wanted > window)
    warn(
      `${found!.id} takes ${window} tokens, less than ${wanted}: long sessions will fail; use --context-window ${window}`,
    );
  return wanted;
}

/** Default context window, in tokens, as clients assume. A too small one only compacts early. */
const ASSUMED_WINDOW = 200_000;

/** The model's context window at the gateway. Failures fall back to the default. */
async function learnWindow(
  context: CommandContext,
  { root_url, credential }: SetUpSpec,
  model: string | undefined,
  needs_window: boolean,
): Promise<number | undefined> {
  if (model === undefined) return undefined;
  try {
    if (!('sign_in' in credential) && !('token' in credential && credential.token === PLACEHOLDER)) {
      const token = await tokenOf(credential, root_url, context);
      const found = await checkModel(root_url, token, model);
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

const SENT: Readonly<Record<Signal, string>> = {
  metrics: 'counts of sessions, tokens, tool calls and lines, with costs and durations',
  logs: 'events for requests, tool calls, decisions and errors, with names, sizes and times',
  traces: 'spans of requests and tool calls',
};

function describeTelemetry({ telemetry, root_url }: SetUpSpec): string[] {
  if (telemetry === undefined) return [];
  if (telemetry.length === 0) return [`The client will send no telemetry to ${root_url}.`];
  return [
    `The client will send telemetry to ${root_url}, which adds your identity:`,
    ...telemetry.map((signal) => `  ${signal}: ${SENT[signal]}`),
    'It contains no texts of prompts, responses and tools.',
  ];
}

/** A spec without the signals that the build CLI does not have. Raises StartError when none is left. */
function withoutTraces<S extends SetUpSpec>(spec: S, warn: (warning: string) => void): S {
  if (!spec.telemetry?.includes('traces')) return spec;
  const telemetry = spec.telemetry.filter((signal) => signal !== 'traces');
  if (telemetry.length === 0) throw usageError('this client sends no traces: use --telemetry with metrics and logs');
  warn('this client sends no traces; only the other signals are configured');
  return { ...spec, telemetry };
}

function telemetryNote(kind: ClientKind, spec: SetUpSpec): string | undefined {
  const { telemetry = [], credential, root_url } = spec;
  if (telemetry.length === 0 || 'sign_in' in credential) return undefined;
  const in_file = kind === 'build-cli' ? [] : kind === 'coding-cli' ? ['token'] : ['token', 'helper'];
  return in_file.some((way) => way in credential) ? undefined : howToAuthenticate(credential, root_url);
}

/** Checks with empty requests that the gateway accepts telemetry. Returns a line per signal. Raises StartError. */
async function checkTelemetry(root_url: string, token: string, signals: readonly Signal[]): Promise<string[]> {
  const ask = createAsk();
  return Promise.all(
    signals.map(async (signal) => {
      const url = `${root_url}/v1/${signal}`;
      const { status, body } = await ask('POST', url, { headers: { authorization: `Bearer ${token}` }, json: {} });
      if (status !== 200) {
        throw new StartError(
          `${url} responds with status ${status}: the gateway accepts no ${signal} with this credential; omit --telemetry to set up the client`,
        );
      }
      const { errorMessage } = fieldsOf(fieldsOf(safeToShow(body)).partialSuccess);
      return `${root_url} accepts ${signal}${typeof errorMessage === 'string' && errorMessage !== '' ? `: ${errorMessage}` : ''}`;
    }),
  );
}

/** The permanent copy, below `$XDG_DATA_HOME`, of a program that npx runs from its cache; `undefined` if installed. */
function keptProgram(
  program: Program,
  env: NodeJS.ProcessEnv,
): { readonly program: Program; readonly keep: () => void } | undefined {
  if (packageGateway() === undefined || !isPassing(program)) return undefined;
  const set = (name: string) => env[name] || undefined;
  const folder = join(set('XDG_DATA_HOME') ?? join(set('HOME') ?? homedir(), '.local', 'share'), 'appscli', 'client');
  const script = join(folder, program.script.slice(PACKAGE_ROOT.length + 1));
  return { program: { ...program, script }, keep: () => copyPackage(folder) };
}

function copyPackage(folder: string): void {
  for (const entry of readdirSync(PACKAGE_ROOT, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const target = join(folder, path.slice(PACKAGE_ROOT.length + 1));
    try {
      makeDirectory(dirname(target));
      writeFileSync(`${target}.new`, readFileSync(path));
      renameSync(`${target}.new`, target);
    } catch (error) {
      failFile(target, 'written', error);
    }
  }
}

export interface ClientDependencies {
  readonly input: Input;
  /** The program that a key helper runs; this one by default. */
  readonly program?: Program;
}

export interface SetUpOptions
  extends ClientOptions,
    Texts<'alias' | 'displayName' | 'providerName' | 'opusModel' | 'sonnetModel' | 'haikuModel' | 'fableModel'>,
    Flags<'discovery' | 'cache1h' | 'settings'> {
  readonly contextWindow?: number;
  readonly shell?: Shell;
}

function planned<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof BrokenFile)) throw error;
    const position = [error.path, error.line].filter((part) => part !== undefined).join(':');
    throw configurationError(`${position}: ${error.message}; nothing was written`);
  }
}

export async function setUpClient(
  context: CommandContext,
  client: ClientKind,
  options: SetUpOptions,
  { input, program = thisProgram() }: ClientDependencies,
): Promise<number> {
  const { env, terminal } = context;
  const warn = warner(terminal);
  const names = namesOf(options.profile);
  const root_url = rootUrl(options.baseUrl, env);
  if (options.profile === undefined && defaultProfile() === NEUTRAL_PROFILE) warn(NEUTRAL_NAMES_NOTE);
  if (root_url.startsWith('http:') && !isLoopbackUrl(root_url))
    warn(`http exposes the token and the prompts on the network to ${root_url}; use https`);
  if (options.apiKey !== undefined)
    warn('--api-key exposes the token to other users of this machine and to your shell history; use --token-stdin');
  const kept = options.appscli === undefined && options.managed === undefined ? keptProgram(program, env) : undefined;
  const helper = () => helperFor(options, root_url, kept?.program ?? program);
  const credential = await credentialOf(options, input, { needs_text: client === 'coding-cli', helper });
  if ('helper' in credential && options.managed === undefined) {
    if (options.appscli === undefined && kept === undefined && isPassing(program))
      warn('appscli runs from a cache that may be emptied: install it, or set its path with --appscli');
    if (!openCredentials(env).read().has(root_url))
      warn(`you are not signed in at ${root_url} here: run appscli login --base-url ${root_url}`);
  }
  const { model, telemetry } = options;
  const base = { root_url, credential, ...(telemetry !== undefined && { telemetry: telemetry || [] }) };
  const base_spec = client === 'build-cli' ? withoutTraces(base, warn) : base;
  const location = locationOf(options, client, names, env);
  const tiers = tiersOf(options);
  const window = await checkSpec(context, base_spec, options, {
    sends: () =>
      planned(() =>
        inFile(location.path, () => {
          const text = (location.read(location.path) ?? '').trim();
          return signalsIn(client, text === '' ? {} : CLIENTS[client].parse(text), root_url, names);
        }),
      ),
    more_models: client === 'messages' ? Object.values(tiers) : [],
    needs_window: client !== 'messages',
  });
  const spec: SetUpSpec = {
    ...base_spec,
    model,
    context_window: client === 'messages' ? window : (window ?? ASSUMED_WINDOW),
    ...(client === 'build-cli' && { alias: aliasOf(options.alias, model!) }),
    display_name: client === 'build-cli' ? (options.displayName ?? options.providerName) : options.providerName,
    ...(client === 'messages' && { tiers, discovery: options.discovery === true, cache_1h: options.cache1h === true }),
  };
  const rows = CLIENTS[client].rows(spec, names, location.platform);
  const where = 'your environment';
  for (const warning of [...rowWarnings(rows, { env }, where), ...telemetryWarnings(client, spec, env, where)])
    warn(warning);
  const is_for_file = options.settings || options.write || location.shared || !('variable' in credential);
  if (client === 'messages' && !is_for_file) return printLines(context, spec, names, options, location.path);
  const plan = planned(() => planClient(client, spec, names, location));
  const exit_code = await offer(context, client, plan, spec, options, input, location);
  if (exit_code === EXIT_OK && 'helper' in credential) kept?.keep();
  const note = !('variable' in credential)
    ? undefined
    : client === 'messages'
      ? `The file contains no token: set ${names.messages.variable_prefix}_AUTH_TOKEN for the client, or use --token-stdin.`
      : noteUnset(context, credential.variable);
  for (const line of [note, telemetryNote(client, spec)])
    if (line !== undefined) terminal.info(`${hint(terminal, line)}\n`);
  return exit_code;
}

async function offer(
  context: CommandContext,
  client: ClientKind,
  { drafts, warnings }: ClientPlan,
  spec: SetUpSpec,
  options: ClientOptions,
  input: Input,
  { shared, elsewhere, path }: ClientLocation,
): Promise<number> {
  const { root_url, credential } = spec;
  for (const warning of warnings) warner(context.terminal)(warning);
  for (const line of describeTelemetry(spec)) context.terminal.info(`${line}\n`);
  const effective: ClientOptions = elsewhere ? { ...options, print: true } : options;
  if (shared && effective.print) context.terminal.info(`Install the following as ${path} on each machine.\n`);
  return offerDrafts(context, shared ? drafts.map((draft) => ({ ...draft, shared })) : drafts, effective, {
    input,
    token: 'token' in credential ? credential.token : undefined,
    facts: { client, base_url: root_url, warnings },
  });
}

function noteUnset({ env }: CommandContext, variable: string): string | undefined {
  return env[variable] ? undefined : `The client reads its token from ${variable}, which is not set.`;
}

/** Models by tier; other tiers use the main model, because side tasks would otherwise request a vendor model. */
function tiersOf(options: SetUpOptions): NonNullable<SetUpSpec['tiers']> {
  const { model, opusModel: opus, sonnetModel: sonnet, haikuModel: haiku, fableModel: fable } = options;
  const named = { opus, sonnet, haiku, fable };
  return Object.fromEntries(TIERS.map((tier) => [tier, named[tier] ?? model]).filter(([, id]) => id !== undefined));
}

function printLines(
  context: CommandContext,
  spec: SetUpSpec,
  names: ClientNames,
  options: SetUpOptions,
  settings_path: string,
): number {
  const { terminal, env } = context;
  const { variable } = spec.credential as { readonly variable: string };
  const texts = shellVariables(spec, names);
  const copies = { [`${names.messages.variable_prefix}_AUTH_TOKEN`]: variable };
  const prefixed = spec.telemetry?.length ? { [HEADERS_VARIABLE]: { text: BEARER_HEADER, variable } } : {};
  if (options.json) {
    const more = Object.keys(prefixed).length > 0 && { prefixed };
    terminal.data(`${jsonText({ client: 'messages', base_url: spec.root_url, variables: texts, copies, ...more })}\n`);
    return EXIT_OK;
  }
  const lines = shellLines(options.shell ?? shellOf(env, process.platform), { texts, copies, prefixed });
  terminal.verbatim(`${lines.join('\n')}\n`);
  const others =
    'Other OpenTelemetry programs in this shell will also send to the gateway, with your token: use --settings to configure only the client.';
  const notes = [noteUnset(context, variable), ...describeTelemetry(spec), spec.telemetry?.length ? others : undefined];
  for (const line of notes) if (line !== undefined) terminal.info(`${line}\n`);
  if (spec.discovery) {
    const cache = join(dirname(settings_path), 'cache', 'gateway-models.json');
    terminal.info(`The client caches the model list in ${cache}; remove the file to refresh it.\n`);
  }
  return EXIT_OK;
}

type RemoveOptions = Pick<ClientOptions, 'baseUrl' | 'profile' | 'managed' | 'write' | 'print' | 'json'>;

export async function removeClient(
  context: CommandContext,
  client: ClientKind,
  options: RemoveOptions,
  { input }: { readonly input: Input },
): Promise<number> {
  const root_url = rootUrl(options.baseUrl, context.env);
  const names = namesOf(options.profile);
  const location = locationOf(options, client, names, context.env);
  const { drafts } = planned(() => planRemoval(client, root_url, names, location));
  if (drafts.length === 0) {
    context.terminal.info(`The client's files have no settings for ${root_url}.\n`);
    return EXIT_OK;
  }
  const facts = { client, base_url: root_url };
  return offerDrafts(context, drafts, options, { input, token: undefined, facts });
}

const CONTEXT_WINDOW_MIN = 1000;
const CONTEXT_WINDOW_MAX = 100_000_000;

const oneLine = (text: string) =>
  notEmpty(textThat((line) => isPrintableLine(line) && line.length <= 300, 'Expected one line of text.')(text));

const contextWindow = numberThat(
  /^\d{1,9}$/,
  'Expected a whole number of tokens, such as 500000.',
  (tokens) => tokens >= CONTEXT_WINDOW_MIN && tokens <= CONTEXT_WINDOW_MAX,
);

function signals(text: string): Signal[] {
  const words = text.split(',').map((word) => word.trim());
  const known = SIGNALS.filter((signal) => words.includes(signal));
  if (words.every((word) => (SIGNALS as readonly string[]).includes(word))) return known;
  throw new InvalidArgumentError(`Expected some of ${SIGNALS.join(', ')}, separated by commas.`);
}

const FILES = [
  baseUrl(),
  option(
    '--profile <name>',
    'names of files, keys and variables: shipped (claude, codex, grok) or a file (default: neutral)',
  ),
  choice(
    '--managed [system]',
    'managed file for all users of a machine: linux, macos or windows (default: this system)',
    PLATFORMS,
  ),
  option('--write', 'write without asking'),
  option('--print', 'print the complete files with masked credentials, and write nothing').conflicts('write'),
  json('print a JSON object with the changes'),
];

const COMMON = [
  ...FILES,
  option('--api-key-env <name>', 'environment variable with the token'),
  option('--api-key <token>', 'the token itself; visible to other users, prefer --token-stdin'),
  option('--token-stdin', 'read the token from standard input'),
  option('--key-helper', 'let the client run `appscli token`, with your sign-in'),
  option('--appscli <path>', 'program of the key helper (default: this one; with --managed: appscli on the PATH)'),
  new Option('--telemetry [signals]', 'send telemetry to the gateway: metrics, logs, traces (default: metrics,logs)')
    .argParser(signals)
    .preset('metrics,logs'),
  option('--no-telemetry', 'stop sending telemetry (default: no change)'),
  option('--check', 'check token and model at the gateway first'),
];

const model = () => required('--model <id>', 'model at the gateway', oneLine);
const window = (otherwise: string) =>
  option(
    '--context-window <tokens>',
    `context window of the model (default: by the gateway, else ${otherwise})`,
    contextWindow,
  );

const setUp = (name: ClientKind, row: Omit<CommandRow, 'name' | 'run'>): CommandRow => ({
  ...row,
  name,
  options: [...COMMON, ...row.options!],
  run: (context, options: SetUpOptions) => setUpClient(context, name, options, { input: processInput() }),
});

export const notes = `Shows the changes to the client's files, asks, makes backups, and keeps all
other settings. Exits 1 if changes were not written.`;

export const group_examples = [
  'appscli client build-cli --base-url https://gw.example.com --model coder-1',
  'appscli client coding-cli --model coder-1 --token-stdin --write < token.txt',
  'eval "$(appscli client messages --model coder-1)"',
];

export const commands: readonly CommandRow[] = [
  setUp('build-cli', {
    about: 'set up the build CLI (chat completions)',
    options: [
      model(),
      option('--alias <name>', 'name of the entry in the file (default: from the model)'),
      option('--display-name <text>', 'name that the client shows (default: provider name or model)', oneLine),
      option('--provider-name <text>', 'name that the client shows without --display-name', oneLine),
      window('200000'),
    ],
    notes: `The entry becomes the default model. Without --token-stdin and --api-key the
client reads its token from the variable RELAY_API_KEY, or from --api-key-env.`,
    examples: [
      'appscli client build-cli --base-url https://gw.example.com --model coder-1',
      'appscli client build-cli --model coder-1 --api-key-env GATEWAY_TOKEN --write',
    ],
  }),
  setUp('coding-cli', {
    about: 'set up the coding CLI (Responses)',
    options: [
      model(),
      option('--provider-name <text>', 'name of the gateway in the client', oneLine),
      window('200000'),
    ],
    notes: `The client compacts its conversation at 95 % of the window. The token is
stored in a separate file, unless --api-key-env is set.`,
    examples: [
      'appscli client coding-cli --base-url https://gw.example.com --model coder-1',
      'appscli client coding-cli --model coder-1 --token-stdin --write < token.txt',
    ],
  }),
  setUp('messages', {
    about: 'set up the Messages client',
    options: [
      option('--model <id>', 'main model, also for tiers without their own', oneLine),
      ...['opus', 'sonnet', 'haiku', 'fable'].map((tier) =>
        option(`--${tier}-model <id>`, `model of tier ${tier}`, oneLine),
      ),
      window('the default of the client'),
      option('--discovery', 'let the client read the model list of the gateway'),
      option('--cache-1h', 'let the client use the one-hour prompt cache'),
      option('--sign-in', "use the client's own sign-in at the gateway; needs no token"),
      option('--settings', "write the client's settings file instead of printing shell lines"),
      choice('--shell <name>', 'shell to print lines for', SHELLS),
    ],
    notes: `Prints shell lines by default. --settings, --write, --token-stdin, --api-key,
--sign-in, --key-helper and --managed use its settings file instead. With
--sign-in the client itself signs in and renews its token; with --key-helper it
runs this program for each token.`,
    examples: [
      'eval "$(appscli client messages --base-url https://gateway.example.com)"',
      'appscli client messages --model coder-1 --discovery --cache-1h --settings',
      'appscli client messages --sign-in',
      'appscli client messages --key-helper --managed macos > managed-settings.json',
    ],
  }),
  {
    name: 'remove',
    about: "remove a gateway's settings from a client's files",
    arguments: [['<client>', 'the client', ['messages', 'build-cli', 'coding-cli']]],
    options: FILES,
    examples: ['appscli client remove messages --base-url https://gateway.example.com'],
    run: (context, options: RemoveOptions & { readonly client: ClientKind }) =>
      removeClient(context, options.client, options, { input: processInput() }),
  },
];

export interface ClientOptions
  extends Texts<'baseUrl' | 'apiKey' | 'apiKeyEnv' | 'appscli' | 'model' | 'profile'>,
    Flags<'tokenStdin' | 'keyHelper' | 'signIn' | 'write' | 'print' | 'check' | 'json'> {
  readonly managed?: true | ClientPlatform;
  readonly telemetry?: readonly Signal[] | false;
}

const DEFAULT_VARIABLE = 'RELAY_API_KEY';

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,199}$/;

const TOKEN = /^[\x21-\x7e]{8,8192}$/;

/** Placeholder of a token with `--print`. */
export const PLACEHOLDER = '<API_KEY>';

/** Address of the gateway as typed, possibly with `/v1`. Raises StartError. */
export function givenUrl(value: string | undefined, env: NodeJS.ProcessEnv): string {
  const preset = value ?? (env.APPSCLI_BASE_URL === '' ? undefined : env.APPSCLI_BASE_URL);
  const signed_in = preset === undefined ? [...openCredentials(env).read().keys()] : [];
  return chooseBaseUrl(value, env, signed_in, 'taken');
}

export const rootUrl = (value: string | undefined, env: NodeJS.ProcessEnv): string =>
  withoutApiPath(givenUrl(value, env));

/** Raises StartError, which never quotes a possible token, unless an option's value is the name of a variable. */
export function assertVariable(value: string, option: string): void {
  if (VARIABLE.test(value) && !value.startsWith('gw_')) return;
  throw usageError(
    `${option} expects the name of an environment variable, not a token; if you passed a token, revoke it: it may be in your shell history`,
  );
}

/** The client names of a profile, or the default ones. Raises StartError with the position of an error. */
export function namesOf(file: string | undefined): ClientNames {
  return clientNames(profileOf(file ?? defaultProfile()));
}

/** The client's credential, by options. Raises StartError, which never quotes a possible token. */
export async function credentialOf(
  { apiKey, apiKeyEnv, tokenStdin, keyHelper, signIn, managed, print, check }: ClientOptions,
  input: Input,
  how: { readonly needs_text: boolean; readonly helper: () => KeyHelper },
): Promise<Credential> {
  const ways = [apiKey, apiKeyEnv, tokenStdin, keyHelper, signIn].filter((each) => each !== undefined);
  if (ways.length > 1) {
    throw usageError('--api-key, --api-key-env, --token-stdin, --key-helper and --sign-in exclude each other');
  }
  if (managed !== undefined && (ways.length === 0 || apiKey !== undefined || tokenStdin)) {
    throw usageError('--managed files contain no token: use --key-helper, --sign-in or --api-key-env');
  }
  if (signIn) return { sign_in: true };
  if (keyHelper) return { helper: how.helper() };
  if (apiKey !== undefined) return { token: tokenFrom(apiKey) };
  if (apiKeyEnv !== undefined) {
    assertVariable(apiKeyEnv, '--api-key-env');
    return { variable: apiKeyEnv };
  }
  if (tokenStdin) return { token: tokenFrom(await input.all()) };
  if (!how.needs_text) return { variable: DEFAULT_VARIABLE };
  if (print && !check) return { token: PLACEHOLDER };
  if (input.answers) return { token: tokenFrom(await input.line('Token for the gateway (not shown): ', true)) };
  throw usageError('no token: use --token-stdin, or name its variable with --api-key-env');
}

function tokenFrom(text: string): string {
  const token = text.trim();
  if (TOKEN.test(token)) return token;
  throw usageError('the token must be one line of 8 to 8192 characters without spaces');
}

/** The token itself, for requests to the gateway. Raises StartError if its variable is not set, or without a sign-in. */
export async function tokenOf(
  credential: Exclude<Credential, { readonly sign_in: true }>,
  root_url: string,
  { env, clock = systemClock }: Pick<CommandContext, 'env' | 'clock'>,
): Promise<string> {
  if ('token' in credential) return credential.token;
  if ('helper' in credential) {
    const [credentials, ask] = [openCredentials(env), createAsk()];
    return (await freshCredentials({ credentials, ask, clock, base_url: root_url })).access_token;
  }
  const token = (env[credential.variable] ?? '').trim();
  if (token !== '') return tokenFrom(token);
  throw usageError(`--check needs the token in ${credential.variable}, which is not set`);
}

export function aliasOf(value: string | undefined, model: string): string {
  if (value === undefined) return model.replace(/[^A-Za-z0-9_-]+/g, '-').replace(/^[-_]+|-+$/g, '') || 'gateway';
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(value)) return value;
  throw usageError('--alias: expected letters, digits, dashes and underscores, such as coder');
}

/** The running program, which a key helper runs again. */
export interface Program {
  readonly runtime: string;
  readonly script: string;
}

export function thisProgram(): Program {
  return { runtime: process.execPath, script: realpathSync(process.argv[1]!) };
}

/** Where a client's files are; `shared` by all users; `elsewhere`: another system's. Raises StartError. */
export function locationOf(
  { managed }: Pick<ClientOptions, 'managed'>,
  client: ClientKind,
  all_names: ClientNames,
  env: NodeJS.ProcessEnv,
) {
  const names = CLIENTS[client].files(all_names);
  const here = platformOf(process.platform);
  if (managed === undefined) {
    const path = pathOfFile(names.file, env, names.folder_variable);
    const auth = names.auth_file === undefined ? undefined : pathOfFile(names.auth_file, env, names.folder_variable);
    return { path, auth, platform: here, shared: false, elsewhere: false, read: readUserFile };
  }
  const platform = managed === true ? here : managed;
  const path = names.managed_file[platform];
  if (path === undefined) {
    const where = { linux: 'Linux', macos: 'macOS', windows: 'Windows' }[platform];
    throw usageError(`this client has no managed file on ${where}: set up each user instead`);
  }
  const elsewhere = platform !== here;
  return { path, auth: undefined, platform, shared: true, elsewhere, read: elsewhere ? () => undefined : readUserFile };
}

export type ClientLocation = ReturnType<typeof locationOf>;

export function helperFor(
  { managed, appscli }: Pick<ClientOptions, 'managed' | 'appscli'>,
  root_url: string,
  program: Program,
): KeyHelper {
  const args = ['token', '--base-url', root_url];
  if (appscli !== undefined) return { program: appscli, args };
  if (managed === undefined) return { program: program.runtime, args: [program.script, ...args] };
  const platform = managed === true ? platformOf(process.platform) : managed;
  return { program: platform === 'windows' ? 'appscli.cmd' : 'appscli', args };
}

export function isPassing({ script }: Program): boolean {
  return /[\\/](?:_npx|dlx(?:-[^\\/]*)?)[\\/]/.test(script);
}

/** Shows file changes, asks unless `--write`, and writes. Returns the exit code: 1 if changes were not written. */
export async function offerDrafts(
  { terminal }: CommandContext,
  drafts: readonly Draft[],
  { write, print, json }: Pick<ClientOptions, 'write' | 'print' | 'json'>,
  { input, token, facts }: { readonly input: Input; readonly token: string | undefined; readonly facts: object },
): Promise<number> {
  if (print) {
    const texts = drafts.map(({ path, after }) => ({ path, text: withoutCredentials(after, token) }));
    if (json) terminal.data(`${jsonText({ ...facts, files: texts })}\n`);
    // Several files need headings; a single file can be redirected.
    else
      for (const { path, text } of texts)
        terminal.verbatim(`${texts.length === 1 ? '' : `# ${path}\n`}${text}${text.endsWith('\n') ? '' : '\n'}`);
    return EXIT_OK;
  }
  const changed = drafts.filter(({ before, after }) => before !== after);
  const { is_written, files } =
    changed.length === 0
      ? { is_written: false, files: [] }
      : await writeDrafts(terminal, changed, { write: write === true, input, hides: token ?? [] });
  const outcomes = drafts.map(({ path }) => {
    const outcome = files.find((file) => file.path === path);
    if (outcome === undefined) terminal.info(`${path} is up to date\n`);
    return outcome ?? { path, change: 'none', backup: null };
  });
  if (json) terminal.data(`${jsonText({ ...facts, files: outcomes })}\n`);
  return changed.length === 0 || is_written ? EXIT_OK : EXIT_FINDINGS;
}

/** Shows changes, asks unless `write`, and writes all files or none. Raises StartError. */
export async function writeDrafts(
  terminal: Terminal,
  drafts: readonly Draft[],
  how: { readonly write: boolean; readonly input: Input; readonly hides: string | readonly string[] },
) {
  for (const draft of drafts) {
    const { path, before, after, secret } = draft;
    if (before !== after) terminal.info(showDiff(draft, how.hides, terminal.info_color));
    if (secret) terminal.info(`${path} will be readable only by you\n`);
  }
  const is_written = await mayWrite(terminal, how.write, how.input);
  const backups = is_written ? writeUserFiles(drafts) : [];
  const files = drafts.map(({ path, before }, index) => {
    const backup = backups[index] ?? null;
    const was = backup === null ? '' : `; backup: ${backup}`;
    const is = !is_written ? 'was not written' : before === undefined ? 'was created' : `was written${was}`;
    terminal.info(`${path} ${is}\n`);
    return { path, change: is_written ? 'written' : 'proposed', backup };
  });
  return { is_written, files };
}

async function mayWrite(terminal: Terminal, write: boolean, input: Input): Promise<boolean> {
  if (write || input.answers)
    return write || /^y(?:es)?$/i.test((await input.line('Write these changes? [y/N] ', false)).trim());
  terminal.info('Cannot ask without a terminal: run this again with --write.\n');
  return false;
}
