import type { BuildCliNames } from '../contract/config.ts';
import { inFile, isTable, type Values } from './broken-file.ts';
import type { ClientPlan, ClientWish, Credential, ReadText } from './draft.ts';
import { HELPER_WAIT_SECONDS, isHelperCall, type KeyHelper } from './key-helper.ts';
import { buildTelemetry, unwantedBuildTelemetry } from './telemetry.ts';
import { mergeToml, parseToml } from './toml-text.ts';

/** What the build CLI is told. */
export interface BuildCliWish extends ClientWish {
  /** Identifier of the model at the gateway. */
  readonly model: string;
  /** Name of the entry in its file. */
  readonly alias: string;
  readonly display_name: string;
  /** In tokens. */
  readonly context_window: number;
}

/** What the client asks a model for; each is by default a model of its vendor, which the gateway need not have. */
export const BUILD_CLI_ROLES = ['default', 'session_summary', 'image_description'];

/** The file of the build CLI with an entry for the gateway, which becomes its default. Raises BrokenFile. */
export function planBuildCli(
  wish: BuildCliWish,
  names: BuildCliNames,
  { path, read }: { readonly path: string; readonly read: ReadText },
): ClientPlan {
  const { alias, credential } = wish;
  const before = read(path);
  const entry = {
    model: wish.model,
    base_url: `${wish.root_url}/v1`,
    name: wish.display_name,
    context_window: wish.context_window,
    ...keyOf(credential, alias),
  };
  // Of all ways to a credential it prefers the literal key, then the variable.
  const others = { api_key: 'token', env_key: 'variable', auth_provider: 'helper' };
  const drops = Object.entries(others).flatMap(([key, kind]) => (kind in credential ? [] : [['model', alias, key]]));
  const helper = 'helper' in credential ? { auth_provider: { [alias]: helperTable(credential.helper) } } : {};
  const models = Object.fromEntries(BUILD_CLI_ROLES.map((role) => [role, alias]));
  const values: Values = { models, model: { [alias]: entry }, ...helper, ...buildTelemetry(wish) };
  const after = inFile(path, () => {
    const over = wish.telemetry === undefined ? [] : unwantedBuildTelemetry(wish, parseToml(before ?? ''));
    return mergeToml(before ?? '', values, [...drops, ...over]);
  });
  const drafts = [{ path, before, after, secret: 'token' in credential }];
  return { drafts, warnings: variableWarnings(wish, names) };
}

function keyOf(credential: Credential, alias: string): Values {
  if ('token' in credential) return { api_key: credential.token };
  return 'variable' in credential ? { env_key: credential.variable } : { auth_provider: alias };
}

/** With arguments of its own a command needs no shell, which Windows doesn't have. */
function helperTable({ program, args }: KeyHelper): Values {
  return { command: program, args, timeout_secs: HELPER_WAIT_SECONDS };
}

/** The file of the build CLI without what belongs to a gateway. Raises BrokenFile. */
export function removeBuildCli(
  root_url: string,
  { path, read }: { readonly path: string; readonly read: ReadText },
): ClientPlan {
  const before = read(path);
  if (before === undefined) return { drafts: [], warnings: [] };
  return inFile(path, () => {
    const found = parseToml(before);
    const { model, models, auth_provider } = found;
    const over = unwantedBuildTelemetry({ root_url, telemetry: [] }, found);
    const aliases = entriesOf(model).flatMap(([alias, entry]) => (entry.base_url === `${root_url}/v1` ? [alias] : []));
    const roles = Object.entries(isTable(models) ? models : {}).flatMap(([role, alias]) =>
      aliases.includes(String(alias)) ? [['models', role]] : [],
    );
    const helpers = entriesOf(auth_provider).flatMap(([name, { args }]) =>
      Array.isArray(args) && isHelperCall(args, root_url) ? [['auth_provider', name]] : [],
    );
    const after = mergeToml(before, {}, [...aliases.map((alias) => ['model', alias]), ...roles, ...helpers, ...over]);
    return { drafts: [{ path, before, after, secret: false }], warnings: [] };
  });
}

function entriesOf(value: unknown): [string, Record<string, unknown>][] {
  return Object.entries(isTable(value) ? value : {}).filter((entry): entry is [string, Record<string, unknown>] =>
    isTable(entry[1]),
  );
}

function variableWarnings({ credential }: BuildCliWish, { key_variable }: BuildCliNames): string[] {
  if (!('variable' in credential) || credential.variable !== key_variable) return [];
  return [`${key_variable} is also what the build CLI uses for its vendor; a variable of its own keeps the two apart`];
}
