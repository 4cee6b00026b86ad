import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { failFile, makeDirectory } from '../../../base/kit/files/user-files.ts';
import { isLoopbackUrl } from '../../../base/kit/net/addresses.ts';
import { PACKAGE_ROOT, packageGateway } from '../../../base/kit/package-root.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { openCredentials } from '../../client/credentials.ts';
import { BrokenFile, inFile } from '../../client-files/broken-file.ts';
import {
  CLIENTS,
  type ClientKind,
  type ClientPlan,
  planClient,
  planRemoval,
  rowWarnings,
  type SetUpSpec,
  shellVariables,
  TIERS,
} from '../../client-files/clients.ts';
import type { ClientNames } from '../../client-files/names.ts';
import { type Shell, shellLines, shellOf } from '../../client-files/shell-lines.ts';
import { signalsIn, telemetryWarnings } from '../../client-files/telemetry.ts';
import type { CommandContext } from '../context.ts';
import { configurationError, EXIT_OK } from '../exit-codes.ts';
import { defaultProfile, NEUTRAL_NAMES_NOTE, NEUTRAL_PROFILE } from '../profiles.ts';
import { hint, warner } from '../program-name.ts';
import { ASSUMED_WINDOW, checkSpec } from './client-check.ts';
import {
  aliasOf,
  type ClientLocation,
  type ClientOptions,
  credentialOf,
  helperFor,
  isPassing,
  locationOf,
  namesOf,
  type Program,
  rootUrl,
  thisProgram,
} from './client-options.ts';
import {
  describeShellTelemetry,
  describeTelemetry,
  telemetryNote,
  telemetryPrefixes,
  withoutTraces,
} from './client-telemetry.ts';
import { type Input, offerDrafts } from './client-write.ts';

/**
 * For a program that npx runs from its cache: its permanent copy for key helpers in `appscli/client` below `$XDG_DATA_HOME`
 * (`~/.local/share`), and a function that makes the copy. `undefined` for an installed program.
 */
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

/** Copies the package; replaces each file atomically, because clients may be running it. Raises StartError. */
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

/** Dependencies of the commands; tests replace them. */
export interface ClientDependencies {
  readonly input: Input;
  /** The program that a key helper runs; this one by default. */
  readonly program?: Program;
}

/** Options of `appscli client`; some apply to one client only. */
export interface SetUpOptions extends ClientOptions {
  /** Absent: as the gateway reports. */
  readonly contextWindow?: number;
  readonly alias?: string;
  readonly displayName?: string;
  readonly providerName?: string;
  readonly opusModel?: string;
  readonly sonnetModel?: string;
  readonly haikuModel?: string;
  readonly fableModel?: string;
  readonly discovery?: true;
  readonly cache1h?: true;
  readonly settings?: true;
  readonly shell?: Shell;
}

/** Runs a planning function; turns BrokenFile into StartError with path and line. */
function planned<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof BrokenFile)) throw error;
    const position = [error.path, error.line].filter((part) => part !== undefined).join(':');
    throw configurationError(`${position}: ${error.message}; nothing was written`);
  }
}

/** `appscli client build-cli|coding-cli|messages`. */
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
    ...(client === 'messages' && { more_models: Object.values(tiers) }),
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
  if (client === 'messages' && !is_for_file) return printLines(context, spec, names, { options, location });
  const plan = planned(() => planClient(client, spec, names, location));
  const exit_code = await offer(context, client, plan, { spec, options, input, location });
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
  how: {
    readonly spec: SetUpSpec;
    readonly options: ClientOptions;
    readonly input: Input;
    readonly location: ClientLocation;
  },
): Promise<number> {
  const { spec, options, input, location } = how;
  const { root_url, credential } = spec;
  for (const warning of warnings) warner(context.terminal)(warning);
  for (const line of describeTelemetry(spec)) context.terminal.info(`${line}\n`);
  const { shared, elsewhere, path } = location;
  const effective: ClientOptions = elsewhere ? { ...options, print: true } : options;
  if (shared && effective.print) context.terminal.info(`Install the following as ${path} on each machine.\n`);
  return offerDrafts(context, shared ? drafts.map((draft) => ({ ...draft, shared })) : drafts, effective, {
    input,
    token: credential !== undefined && 'token' in credential ? credential.token : undefined,
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

/** Prints shell lines instead of the Messages client's settings. */
function printLines(
  context: CommandContext,
  spec: SetUpSpec,
  names: ClientNames,
  { options, location }: { readonly options: SetUpOptions; readonly location: ClientLocation },
): number {
  const { terminal, env } = context;
  const { variable } = spec.credential as { readonly variable: string };
  const texts = shellVariables(spec, names);
  const copies = { [`${names.messages.variable_prefix}_AUTH_TOKEN`]: variable };
  const prefixed = telemetryPrefixes(spec);
  if (options.json) {
    const more = Object.keys(prefixed).length > 0 && { prefixed };
    terminal.data(`${jsonText({ client: 'messages', base_url: spec.root_url, variables: texts, copies, ...more })}\n`);
    return EXIT_OK;
  }
  const lines = shellLines(options.shell ?? shellOf(env, process.platform), { texts, copies, prefixed });
  terminal.verbatim(`${lines.join('\n')}\n`);
  const unset = noteUnset(context, variable);
  for (const line of [...(unset === undefined ? [] : [unset]), ...describeShellTelemetry(spec)])
    terminal.info(`${line}\n`);
  if (spec.discovery) {
    const cache = join(dirname(location.path), 'cache', 'gateway-models.json');
    terminal.info(`The client caches the model list in ${cache}; remove the file to refresh it.\n`);
  }
  return EXIT_OK;
}

/** Options of `appscli client remove`. */
export type RemoveOptions = Pick<ClientOptions, 'baseUrl' | 'profile' | 'managed' | 'write' | 'print' | 'json'>;

/** `appscli client remove`: removes a gateway's settings from a client's files. */
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
