import { readdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { SIGNALS, type Signal } from '../../base/contract/client-telemetry.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { systemClock } from '../../base/kit/clock.ts';
import { failFile, makeDirectory } from '../../base/kit/files/user-files.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import { isLoopbackUrl } from '../../base/kit/net/addresses.ts';
import { PACKAGE_ROOT, packageGateway } from '../../base/kit/package-root.ts';
import { isPrintableLine, jsonText } from '../../base/kit/text/printable.ts';
import { safeToShow } from '../client/answers.ts';
import { chooseBaseUrl, withoutApiPath } from '../client/base-url.ts';
import { freshCredentials, openCredentials } from '../client/credentials.ts';
import { discover } from '../client/device-sign-in.ts';
import { createAsk } from '../client/http.ts';
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
import type { Diagnosis } from '../doctor/workstation.ts';
import {
  baseUrl,
  type CommandContext,
  type CommandRow,
  choice,
  configurationError,
  EXIT_FINDINGS,
  EXIT_OK,
  EXIT_UNAVAILABLE,
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

/** The context window of a model by the gateway's list, in tokens; `undefined` if it is unknown. */
async function windowAt(root_url: string, token: string, model: string): Promise<number | undefined> {
  const [{ findModel }, { listedModels }] = await Promise.all([
    import('../doctor/gateway/diagnose-gateway.ts'),
    import('../selfcheck/models.ts'),
  ]);
  const headers = { authorization: `Bearer ${token}` };
  const { status, body } = await createAsk()('GET', `${root_url}/v1/models?limit=1000`, { headers });
  return findModel(listedModels({ status, fault: undefined, json: body }) ?? [], model)?.context_window;
}

/** Checks a set-up at the gateway as `appscli doctor` does (`--check`). Raises StartError with a remedy. */
async function checkSpec(
  context: CommandContext,
  client: ClientKind,
  spec: SetUpSpec,
  { model, contextWindow: context_window }: SetUpOptions,
  how: { readonly names: ClientNames; readonly more_models: readonly string[]; sends(): readonly Signal[] },
): Promise<void> {
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
    return;
  }
  const token = await tokenOf(credential, root_url, context);
  const { diagnoseGateway } = await import('../doctor/gateway/diagnose-gateway.ts');
  const { openWorkstation } = await import('../doctor/workstation.ts');
  const more_models = [...new Set(how.more_models)].filter((each) => each !== model);
  const connection = { client, root_url, token, model, more_models, context_window };
  const diagnoses = await diagnoseGateway(openWorkstation(context.env, how.names), [connection]);
  // Nothing is known of the token without a list of models.
  const is_checked = diagnoses.some(({ id }) => id === 'gateway.token');
  const isWrong = ({ id, verdict }: Diagnosis): boolean => {
    if (id === 'gateway.model') return verdict !== 'ok';
    if (id === 'gateway.models') return verdict !== 'ok' && !is_checked;
    return verdict === 'failed' && id !== 'gateway.context_window';
  };
  for (const diagnosis of diagnoses) {
    const { id, title, verdict, found, remedy, details = [] } = diagnosis;
    const text = `${title}: ${[found, ...(verdict === 'ok' ? [] : [...details, remedy])].join('; ')}`;
    const exit_code = id === 'gateway.models' ? EXIT_UNAVAILABLE : EXIT_FINDINGS;
    if (isWrong(diagnosis)) throw new StartError(text, { exit_code });
    if (verdict !== 'skipped') warn(text);
  }
  for (const line of await checkTelemetry(root_url, token, signals)) warn(line);
}

/** Default context window, in tokens, as clients assume. A too small one only compacts early. */
const ASSUMED_WINDOW = 200_000;

/** The model's context window by the gateway, else the default if the client needs one. */
async function learnWindow(
  context: CommandContext,
  { root_url, credential }: SetUpSpec,
  model: string | undefined,
  needs_window: boolean,
): Promise<number | undefined> {
  if (model === undefined) return undefined;
  if (!('sign_in' in credential) && !('token' in credential && credential.token === PLACEHOLDER)) {
    const found = await tokenOf(credential, root_url, context)
      .then((token) => windowAt(root_url, token, model))
      .catch((error: unknown) => {
        if (!(error instanceof StartError)) throw error;
        return undefined;
      });
    if (found !== undefined) return found;
  }
  if (!needs_window) return undefined;
  warner(context.terminal)(
    `unknown context window of ${model} at ${root_url}: using ${ASSUMED_WINDOW} tokens; see --check, or set --context-window`,
  );
  return ASSUMED_WINDOW;
}

const USUAL_SIGNALS: readonly Signal[] = ['metrics', 'logs'];

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

/** Copies the files of a package. Each is replaced as a whole, because a key helper may run the copy meanwhile. */
export function copyPackage(folder: string, from = PACKAGE_ROOT): void {
  for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const target = join(folder, path.slice(from.length + 1));
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
  const { model } = options;
  const telemetry = options.telemetry === true ? USUAL_SIGNALS : options.telemetry || [];
  const base = { root_url, credential, ...(options.telemetry !== undefined && { telemetry }) };
  const base_spec = client === 'build-cli' ? withoutTraces(base, warn) : base;
  const location = locationOf(options, client, names, env);
  const tiers = tiersOf(options);
  const sends = () =>
    planned(() =>
      inFile(location.path, () => {
        const text = (location.read(location.path) ?? '').trim();
        return signalsIn(client, text === '' ? {} : CLIENTS[client].parse(text), root_url, names);
      }),
    );
  const more_models = client === 'messages' ? Object.values(tiers) : [];
  if (options.check) await checkSpec(context, client, base_spec, options, { names, more_models, sends });
  const needs_window = client !== 'messages';
  const window = options.contextWindow ?? (await learnWindow(context, base_spec, model, needs_window));
  const spec: SetUpSpec = {
    ...base_spec,
    model,
    context_window: needs_window ? (window ?? ASSUMED_WINDOW) : window,
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
  `Expected a whole number of tokens from ${CONTEXT_WINDOW_MIN} to ${CONTEXT_WINDOW_MAX}, such as 500000.`,
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
  choice('--managed [system]', 'managed file for all users of a machine, on this system or another one', PLATFORMS),
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
  option(
    '--telemetry [signals]',
    'send telemetry to the gateway: some of metrics, logs and traces (default: metrics,logs)',
    signals,
  ),
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

interface ClientOptions
  extends Texts<'baseUrl' | 'apiKey' | 'apiKeyEnv' | 'appscli' | 'model' | 'profile'>,
    Flags<'tokenStdin' | 'keyHelper' | 'signIn' | 'write' | 'print' | 'check' | 'json'> {
  readonly managed?: true | ClientPlatform;
  readonly telemetry?: readonly Signal[] | boolean;
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
  return chooseBaseUrl(value, env, signed_in, 'allowed');
}

export const rootUrl = (value: string | undefined, env: NodeJS.ProcessEnv): string =>
  withoutApiPath(givenUrl(value, env));

/** Raises StartError, which never quotes a possible token, unless an option's value is the name of a variable. */
function assertVariable(value: string, option: string): void {
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
  return tokenIn(credential.variable, '--check', env);
}

/** The token in a variable that an option needs. Raises StartError, which never contains a possible token. */
export function tokenIn(variable: string, option: string, env: NodeJS.ProcessEnv): string {
  assertVariable(variable, option);
  const token = (env[variable] ?? '').trim();
  if (token === '') throw usageError(`${option}: the variable ${variable} is not set`);
  // Other gateways may have short keys.
  if (/^[\x21-\x7e]{1,8192}$/.test(token)) return token;
  throw usageError(`${option}: the variable ${variable} contains no valid token: it has spaces or special characters`);
}

function aliasOf(value: string | undefined, model: string): string {
  if (value === undefined) return model.replace(/[^A-Za-z0-9_-]+/g, '-').replace(/^[-_]+|-+$/g, '') || 'gateway';
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(value)) return value;
  throw usageError('--alias: expected letters, digits, dashes and underscores, such as coder');
}

/** The running program, which a key helper runs again. */
export interface Program {
  readonly runtime: string;
  readonly script: string;
}

function thisProgram(): Program {
  return { runtime: process.execPath, script: realpathSync(process.argv[1]!) };
}

/** Where a client's files are; `shared` by all users; `elsewhere`: another system's. Raises StartError. */
function locationOf(
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

type ClientLocation = ReturnType<typeof locationOf>;

function helperFor(
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

function isPassing({ script }: Program): boolean {
  return /[\\/](?:_npx|dlx(?:-[^\\/]*)?)[\\/]/.test(script);
}

/** Shows file changes, asks unless `--write`, and writes. Returns the exit code: 1 if changes were not written. */
async function offerDrafts(
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
  const how = { write: write === true, input, hides: token ?? [] };
  const { is_written, files } = await writeDrafts(terminal, changed, how);
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
  if (drafts.length === 0) return { is_written: false, files: [] };
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
