import { dirname, join } from 'node:path';
import { openCredentials } from '../../client/credentials.ts';
import type { Fetch } from '../../client/http.ts';
import { BrokenFile, inFile } from '../../client-files/broken-file.ts';
import { planBuildCli } from '../../client-files/build-cli.ts';
import { planCodingCli } from '../../client-files/coding-cli.ts';
import type { ClientPlan, ClientWish } from '../../client-files/draft.ts';
import { parseObject } from '../../client-files/json-text.ts';
import {
  credentialVariable,
  type MessagesWish,
  messagesVariables,
  planMessages,
  TIERS,
  variableWarnings,
} from '../../client-files/messages.ts';
import { type ClientNames, pathOfFile } from '../../client-files/names.ts';
import { type Shell, shellLines, shellOf } from '../../client-files/shell-lines.ts';
import {
  buildSignals,
  codingSignals,
  messagesSignals,
  shellTelemetry,
  telemetryWarnings,
} from '../../client-files/telemetry.ts';
import { parseToml } from '../../client-files/toml-text.ts';
import type { Signal } from '../../contract/client-telemetry.ts';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { isLoopbackUrl } from '../../kit/net/addresses.ts';
import { jsonText } from '../../kit/text/printable.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { defaultProfile, NEUTRAL_NAMES_NOTE, NEUTRAL_PROFILE } from '../profiles.ts';
import { hint } from '../program-name.ts';
import { warner } from '../surroundings.ts';
import { ASSUMED_WINDOW, checkWish } from './client-check.ts';
import type { Input } from './client-input.ts';
import { type ClientLocation, helperFor, isPassing, locationOf, type Program, thisProgram } from './client-location.ts';
import { aliasOf, type ClientKind, type ClientOptions, credentialOf, namesOf, rootUrl } from './client-options.ts';
import {
  describeShellTelemetry,
  describeTelemetry,
  telemetryNote,
  telemetryPrefixes,
  withoutTraces,
} from './client-telemetry.ts';
import { offerDrafts } from './client-write.ts';
import { keptProgram } from './kept-program.ts';

/** What these commands are given beyond their options. */
export interface ClientSurroundings {
  readonly input: Input;
  /** The program that a key helper calls again; this one. */
  readonly program?: Program;
  readonly fetch?: Fetch;
}

/** Options of `appscli client build-cli`. */
export interface BuildCliOptions extends ClientOptions {
  readonly model: string;
  /** Absent: what the gateway says, if it is asked. */
  readonly contextWindow?: number;
  readonly alias?: string;
  readonly displayName?: string;
  readonly providerName?: string;
}

/** Options of `appscli client coding-cli`. */
export interface CodingCliOptions extends ClientOptions {
  readonly model: string;
  /** Absent: what the gateway says, if it is asked. */
  readonly contextWindow?: number;
  readonly providerName?: string;
}

/** Options of `appscli client messages`. */
export interface MessagesOptions extends ClientOptions {
  readonly opusModel?: string;
  readonly sonnetModel?: string;
  readonly haikuModel?: string;
  readonly fableModel?: string;
  readonly contextWindow?: number;
  readonly discovery?: true;
  readonly cache1h?: true;
  readonly settings?: true;
  readonly shell?: Shell;
}

interface Wish extends ClientWish {
  readonly names: ClientNames;
  /** Keeps the program that the key helper runs, where it is in a cache. */
  readonly keep?: () => void;
}

async function wishOf(
  { env, terminal }: CommandContext,
  given: ClientOptions,
  { input, program = thisProgram() }: ClientSurroundings,
  needs_text = false,
): Promise<Wish> {
  const names = namesOf(given.profile);
  const root_url = rootUrl(given.baseUrl, env);
  const warn = warner(terminal);
  if (given.profile === undefined && defaultProfile() === NEUTRAL_PROFILE) warn(NEUTRAL_NAMES_NOTE);
  if (root_url.startsWith('http:') && !isLoopbackUrl(root_url))
    warn(`over http everybody between the client and ${root_url} can read the token and the prompts; use https`);
  if (given.apiKey !== undefined)
    warn('--api-key shows the token to everybody on this machine, and your shell keeps it; --token-stdin does not');
  const kept = given.appscli === undefined && given.managed === undefined ? keptProgram(program, env) : undefined;
  const helper = () => helperFor(given, root_url, kept?.program ?? program);
  const credential = await credentialOf(given, input, { needs_text, helper });
  if ('helper' in credential && given.managed === undefined) {
    if (given.appscli === undefined && kept === undefined && isPassing(program))
      warn('appscli runs from a cache that may be emptied: install it, or say with --appscli where it is');
    if (!openCredentials(env).read().has(root_url))
      warn(`you are not signed in at ${root_url} here: run appscli login --base-url ${root_url}`);
  }
  const { telemetry } = given;
  return {
    ...{ names, root_url, credential },
    ...(kept !== undefined && 'helper' in credential && { keep: kept.keep }),
    ...(telemetry !== undefined && { telemetry: telemetry || [] }),
  };
}

/** The signals that a client sends by its file as it is. Raises StartError for a broken file. */
function signalsOf({ path, read }: ClientLocation, signalsIn: (text: string) => readonly Signal[]): readonly Signal[] {
  return broken(() => inFile(path, () => signalsIn((read(path) ?? '').trim())));
}

/** Makes a plan; what is wrong with a user's file becomes an error with its path and line. */
export function planned(make: () => ClientPlan): ClientPlan {
  return broken(make);
}

function broken<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof BrokenFile)) throw error;
    const position = [error.path, error.line].filter((part) => part !== undefined).join(':');
    throw new StartError(`${position}: ${error.message}; nothing was written`, { exit_code: EXIT_CONFIGURATION });
  }
}

async function offer(
  context: CommandContext,
  kind: ClientKind,
  { drafts, warnings }: ClientPlan,
  wish: Wish,
  how: {
    readonly given: ClientOptions;
    readonly input: Input;
    readonly location: ClientLocation;
    /** What to say about a variable that holds the token. */
    readonly note: (variable: string) => string | undefined;
  },
): Promise<number> {
  const { root_url, credential } = wish;
  for (const warning of warnings) warner(context.terminal)(warning);
  for (const line of describeTelemetry(wish)) context.terminal.info(`${line}\n`);
  const token = 'token' in credential ? credential.token : undefined;
  const { write, json } = how.given;
  const { shared, elsewhere } = how.location;
  const print = how.given.print || elsewhere;
  if (shared && print) context.terminal.info(`What follows belongs in ${how.location.path} on each machine.\n`);
  const exit_code = await offerDrafts(context, shared ? drafts.map((draft) => ({ ...draft, shared })) : drafts, {
    ...(write && { write }),
    ...(print && { print }),
    ...(json && { json }),
    input: how.input,
    token,
    facts: { client: kind, base_url: root_url, warnings },
  });
  if (exit_code === EXIT_OK) wish.keep?.();
  const note = 'variable' in credential ? how.note(credential.variable) : undefined;
  for (const line of [note, telemetryNote(kind, wish)])
    if (line !== undefined) context.terminal.info(`${hint(context.terminal, line)}\n`);
  return exit_code;
}

function noteUnset({ env }: CommandContext) {
  return (variable: string) =>
    env[variable] ? undefined : `The client reads its token from ${variable}, which is not set here.`;
}

/** `appscli client build-cli`. */
export async function buildCli(
  context: CommandContext,
  given: BuildCliOptions,
  surroundings: ClientSurroundings,
): Promise<number> {
  const { input, fetch } = surroundings;
  const warn = warner(context.terminal);
  const wish = withoutTraces(await wishOf(context, given, surroundings), warn);
  for (const warning of telemetryWarnings('build-cli', wish, context.env, 'your environment')) warn(warning);
  const names = wish.names.build_cli;
  const location = locationOf(given, { ...names, file: names.config_file }, context.env);
  const sends = () => signalsOf(location, (text) => buildSignals(parseToml(text), wish.root_url));
  const context_window =
    (await checkWish(context, wish, given, { fetch, sends, needs_window: true })) ?? ASSUMED_WINDOW;
  const { model } = given;
  const display_name = given.displayName ?? given.providerName ?? model;
  const alias = aliasOf(given.alias, model);
  const plan = planned(() => planBuildCli({ ...wish, model, alias, display_name, context_window }, names, location));
  return offer(context, 'build-cli', plan, wish, { given, input, location, note: noteUnset(context) });
}

/** `appscli client coding-cli`. */
export async function codingCli(
  context: CommandContext,
  given: CodingCliOptions,
  surroundings: ClientSurroundings,
): Promise<number> {
  const { input, fetch } = surroundings;
  const wish = await wishOf(context, given, surroundings, true);
  for (const warning of telemetryWarnings('coding-cli', wish, context.env, 'your environment'))
    warner(context.terminal)(warning);
  const names = wish.names.coding_cli;
  const location = locationOf(given, { ...names, file: names.config_file }, context.env);
  const sends = () => signalsOf(location, (text) => codingSignals(parseToml(text), wish.root_url));
  const context_window =
    (await checkWish(context, wish, given, { fetch, sends, needs_window: true })) ?? ASSUMED_WINDOW;
  const { path: config, read } = location;
  const auth = pathOfFile(names.auth_file, context.env, names.folder_variable);
  const { model, providerName: provider_name = 'custom' } = given;
  const plan = planned(() =>
    planCodingCli({ ...wish, model, provider_name, context_window }, names, { config, auth, read }),
  );
  return offer(context, 'coding-cli', plan, wish, { given, input, location, note: noteUnset(context) });
}

/** A tier that nobody names has the model itself: what helps it along would else ask for a model of the vendor. */
function tiersOf(given: MessagesOptions): MessagesWish['tiers'] {
  const { model, opusModel: opus, sonnetModel: sonnet, haikuModel: haiku, fableModel: fable } = given;
  const named = { opus, sonnet, haiku, fable };
  return Object.fromEntries(TIERS.map((tier) => [tier, named[tier] ?? model]).filter(([, id]) => id !== undefined));
}

/** `appscli client messages`. */
export async function messages(
  context: CommandContext,
  given: MessagesOptions,
  surroundings: ClientSurroundings,
): Promise<number> {
  const { input, fetch } = surroundings;
  const wish = await wishOf(context, given, surroundings);
  const names = wish.names.messages;
  const location = locationOf(given, { ...names, file: names.settings_file }, context.env);
  const { model, discovery = false, cache1h: cache_1h = false } = given;
  const tiers = tiersOf(given);
  const sends = () => signalsOf(location, (text) => messagesSignals(parseObject(text || '{}'), { ...wish, ...names }));
  const more_models = Object.values(tiers);
  const context_window = await checkWish(context, wish, given, { fetch, sends, more_models, needs_window: false });
  const full: MessagesWish = { ...wish, model, tiers, context_window, discovery, cache_1h };
  for (const warning of variableWarnings(full, names, context.env, 'your environment'))
    warner(context.terminal)(warning);
  if (given.settings || given.write || location.shared || !('variable' in wish.credential)) {
    const plan = planned(() => planMessages(full, names, location));
    const note = () =>
      `The token is not in the file: set ${credentialVariable(names)} where the client starts, or use --token-stdin.`;
    return offer(context, 'messages', plan, wish, { given, input, location, note });
  }
  const texts = { ...messagesVariables(full, names), ...shellTelemetry(full, names) };
  const copies = { [credentialVariable(names)]: wish.credential.variable };
  const prefixed = telemetryPrefixes(full);
  const { terminal, env } = context;
  if (given.json) {
    terminal.data(
      `${jsonText({ client: 'messages', base_url: wish.root_url, variables: texts, copies, ...(Object.keys(prefixed).length > 0 && { prefixed }) })}\n`,
    );
  } else {
    terminal.verbatim(
      `${shellLines(given.shell ?? shellOf(env, process.platform), { texts, copies, prefixed }).join('\n')}\n`,
    );
    const unset = noteUnset(context)(wish.credential.variable);
    if (unset !== undefined) terminal.info(`${unset}\n`);
    for (const line of describeShellTelemetry(full)) terminal.info(`${line}\n`);
    if (discovery) {
      const cache = join(dirname(location.path), 'cache', 'gateway-models.json');
      terminal.info(`The client keeps the models it finds in ${cache}; remove the file to have it ask again.\n`);
    }
  }
  return EXIT_OK;
}
