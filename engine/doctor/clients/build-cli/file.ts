import { isTable, type Scalar, type Values } from '../../../client-files/broken-file.ts';
import { platformOf } from '../../../client-files/key-helper.ts';
import { pathOfFile } from '../../../client-files/names.ts';
import { lineInToml } from '../../../client-files/toml-lines.ts';
import type { BuildCliNames, ManagedFiles } from '../../../contract/config.ts';
import { closest } from '../../../kit/text/suggest.ts';
import type { Desk } from '../../desk.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { type ClientFile, positionOf } from '../client-file.ts';
import { isKeyAnywhere, readKeyText, readVariableText } from '../credential-text.ts';
import { isFlat, readLayers, type TomlLayers, tablesIn, tomlFix, valueAt } from '../toml-layers.ts';

/** What is known of the build CLI before anything is judged. */
export interface BuildCli {
  readonly desk: Desk;
  readonly names: BuildCliNames;
  readonly layers: TomlLayers;
  readonly entries: readonly Entry[];
  /** Whether it is signed in to its vendor. */
  readonly has_session: boolean;
  /** Whether it takes its list of models from an address, so that more models may be there than entries. */
  readonly has_list: boolean;
}

/** A `[model.<alias>]`, with what it takes from its `[model_providers.<name>]`. */
export interface Entry {
  readonly alias: string;
  readonly values: Readonly<Record<string, unknown>>;
  /** Where a key of it stands, or would. */
  pathOf(key: string): readonly string[];
}

/** Keys that make an entry what it is, and what other programs call them. */
const ENTRY_KEYS = [
  'model',
  'base_url',
  'name',
  'context_window',
  'api_key',
  'env_key',
  'auth_provider',
  'api_backend',
];
const OTHER_WORDS: Readonly<Record<string, string>> = {
  model_id: 'model',
  url: 'base_url',
  api_base: 'base_url',
  endpoint: 'base_url',
  key: 'api_key',
  token: 'api_key',
  auth_token: 'api_key',
  api_key_env: 'env_key',
  env_var: 'env_key',
  model_context_window: 'context_window',
  context_length: 'context_window',
  max_context: 'context_window',
};
const KNOWN_KEYS = new Set([
  ...ENTRY_KEYS,
  'agent_type',
  'api_base_url',
  'auto_compact_threshold_percent',
  'compaction_at_tokens',
  'compactions_remaining',
  'description',
  'env_http_headers',
  'extra_headers',
  'hidden',
  'max_retries',
  'model_family',
  'model_provider',
  'query_params',
  'temperature',
  'top_k',
  'top_p',
]);

/** What an entry may leave to its provider. */
const OF_PROVIDER = [
  'base_url',
  'api_key',
  'env_key',
  'auth_provider',
  'api_backend',
  'extra_headers',
  'env_http_headers',
];

/** Reads the files of the build CLI. */
export function openBuildCli(desk: Desk): BuildCli {
  const names = desk.names.build_cli;
  const user = pathOfFile(names.config_file, desk.env, names.folder_variable);
  const layers = readLayers(
    desk,
    { below: systemFile(desk, names.managed_file), user, above: systemFile(desk, names.enforced_file) },
    {
      id: 'build_cli.file',
      title: 'configuration of the build CLI',
      mend: [moveTables, renameKeys],
      secretsOf: (values) => secretsOf(values, desk.env),
    },
  );
  const { values } = layers;
  const list_variable = desk.env[names.models_url_variable] ?? '';
  return {
    desk,
    names,
    layers,
    entries: tablesIn(values.model).map(([alias, table]) => entryOf(alias, table, values)),
    has_session: isSignedIn(desk, pathOfFile(names.session_file, desk.env, names.folder_variable)),
    has_list: list_variable !== '' || typeof valueAt(values, ['endpoints', 'models_base_url']) === 'string',
  };
}

function systemFile(desk: Desk, files: ManagedFiles): string[] {
  const path = files[platformOf(desk.platform)];
  return path === undefined ? [] : [path];
}

function entryOf(alias: string, table: Record<string, unknown>, values: unknown): Entry {
  const provider = typeof table.model_provider === 'string' ? table.model_provider : undefined;
  const shared = provider === undefined ? undefined : valueAt(values, ['model_providers', provider]);
  const inherited = isTable(shared) ? shared : {};
  const takes = (key: string) =>
    !Object.hasOwn(table, key) && OF_PROVIDER.includes(key) && Object.hasOwn(inherited, key);
  const from_provider = Object.fromEntries(Object.entries(inherited).filter(([key]) => takes(key)));
  return {
    alias,
    values: { ...from_provider, ...table },
    pathOf: (key) => (takes(key) ? ['model_providers', provider!, key] : ['model', alias, key]),
  };
}

function isSignedIn(desk: Desk, path: string): boolean {
  try {
    const text = desk.read(path)?.trim() ?? '';
    return text !== '' && text !== '{}' && text !== 'null';
  } catch {
    return false;
  }
}

/** Keys of entries and providers, and what stands where a variable should be named and is none. */
function secretsOf(values: Readonly<Record<string, unknown>>, env: NodeJS.ProcessEnv): string[] {
  const named = [values.model, values.models, values.model_providers].flatMap((each) => tablesIn(each));
  const tables = [...named, ...tablesIn(values)];
  return tables.flatMap(([, table]) =>
    Object.entries(table).flatMap(([key, value]) => {
      const meant = OTHER_WORDS[key] ?? closest(key, ENTRY_KEYS) ?? key;
      const texts = [value].flat().filter((text) => typeof text === 'string');
      return texts.filter((text) => {
        if (meant === 'api_key') return ['key', 'padded'].includes(readKeyText(text).kind);
        return isKeyAnywhere(text) || (meant === 'env_key' && readVariableText(text, env).kind === 'key');
      });
    }),
  );
}

const NAMES = { id: 'build_cli.names', title: 'names of tables and keys' } as const;

/** Tables that the client passes over without a word, because of their names. */
function moveTables({ path, text, values }: ClientFile, hides: readonly string[]): Diagnosis[] {
  const at = (place: readonly string[]) => positionOf(path, lineInToml(text, place));
  const in_wrong_table = tablesIn(values.models).flatMap(([alias, table]): Diagnosis[] => {
    if (!('base_url' in table || 'model' in table)) return [];
    const found = `[models.${alias}] is a table the client does not know`;
    const remedy = `call it [model.${alias}]`;
    const moved = isFlat(table) && valueAt(values, ['model', alias]) === undefined;
    const fixes = [tomlFix(path, { set: { model: { [alias]: table as Values } }, drop: [['models', alias]] }, hides)];
    return [{ ...NAMES, verdict: 'failed', where: at(['models', alias]), found, remedy, ...(moved && { fixes }) }];
  });
  const misplaced = ['default', 'session_summary', 'image_description'].flatMap((role): Diagnosis[] => {
    const value = valueAt(values, ['model', role]);
    if (typeof value !== 'string') return [];
    const found = `${role} is in [model], where the client does not look for it`;
    const remedy = `put it into [models]`;
    const moved = valueAt(values, ['models', role]) === undefined;
    const fixes = [tomlFix(path, { set: { models: { [role]: value } }, drop: [['model', role]] }, hides)];
    return [{ ...NAMES, verdict: 'failed', where: at(['model', role]), found, remedy, ...(moved && { fixes }) }];
  });
  return [...in_wrong_table, ...misplaced];
}

/** Keys of entries that the client does not know, and which it must have been told. */
function renameKeys({ path, text, values }: ClientFile, hides: readonly string[]): Diagnosis[] {
  return tablesIn(values.model).flatMap(([alias, table]) =>
    Object.entries(table).flatMap(([key, value]): Diagnosis[] => {
      const meant = KNOWN_KEYS.has(key) ? undefined : (OTHER_WORDS[key] ?? closest(key, ENTRY_KEYS));
      if (meant === undefined) return [];
      const found = `the client does not know the key ${key} of [model.${alias}]`;
      const remedy = `${meant} is probably meant`;
      const renamed = isFlat({ value }) && !Object.hasOwn(table, meant);
      const change = { set: { model: { [alias]: { [meant]: value as Scalar } } }, drop: [['model', alias, key]] };
      const where = positionOf(path, lineInToml(text, ['model', alias, key]));
      return [
        {
          ...NAMES,
          verdict: renamed ? 'failed' : 'warning',
          where,
          found,
          remedy,
          ...(renamed && { fixes: [tomlFix(path, change, hides)] }),
        },
      ];
    }),
  );
}
