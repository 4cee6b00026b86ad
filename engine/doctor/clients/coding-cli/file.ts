import { basename, dirname, join } from 'node:path';
import { isTable, type Scalar, type Values } from '../../../client-files/broken-file.ts';
import { platformOf } from '../../../client-files/key-helper.ts';
import { pathOfFile } from '../../../client-files/names.ts';
import { lineInToml } from '../../../client-files/toml-lines.ts';
import type { CodingCliNames } from '../../../contract/config.ts';
import { closest } from '../../../kit/text/suggest.ts';
import type { Desk } from '../../desk.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { type ClientFile, lineInJson, positionOf, readJsonFile } from '../client-file.ts';
import { isKeyAnywhere, readKeyText, readVariableText } from '../credential-text.ts';
import { isFlat, readLayers, type TomlLayers, tablesIn, tomlFix, valuesAt } from '../toml-layers.ts';

/** What is known of the coding CLI before anything is judged. */
export interface CodingCli {
  readonly desk: Desk;
  readonly names: CodingCliNames;
  readonly layers: TomlLayers;
  /** Sections of `model_providers`, by name. */
  readonly sections: readonly (readonly [name: string, values: Readonly<Record<string, unknown>>])[];
  readonly auth_path: string;
  readonly auth: ClientFile | undefined;
  readonly broken_auth: Diagnosis | undefined;
  /** What the folder of today says besides, where there is a file of it. */
  readonly project: ClientFile | undefined;
}

const TOP_KEYS = [
  'model_provider',
  'model',
  'model_reasoning_effort',
  'model_context_window',
  'model_auto_compact_token_limit',
  'model_catalog_json',
];
const KNOWN_AT_TOP = new Set([
  ...TOP_KEYS,
  'model_providers',
  'model_verbosity',
  'models',
  'review_model',
  'model_reasoning_summary',
]);

const SECTION_KEYS = ['name', 'base_url', 'env_key', 'wire_api', 'supports_websockets'];
const KNOWN_IN_SECTION = new Set([
  ...SECTION_KEYS,
  'auth',
  'http_headers',
  'env_http_headers',
  'query_params',
  'env_key_instructions',
]);

const OTHER_WORDS: Readonly<Record<string, string>> = {
  provider: 'model_provider',
  context_window: 'model_context_window',
  auto_compact_token_limit: 'model_auto_compact_token_limit',
  reasoning_effort: 'model_reasoning_effort',
};
const OTHER_WORDS_IN_SECTION: Readonly<Record<string, string>> = {
  url: 'base_url',
  api_base: 'base_url',
  endpoint: 'base_url',
  api_key_env: 'env_key',
  env_var: 'env_key',
};

/** Reads the files of the coding CLI. */
export function openCodingCli(desk: Desk): CodingCli {
  const names = desk.names.coding_cli;
  const user = pathOfFile(names.config_file, desk.env, names.folder_variable);
  const managed = names.managed_file[platformOf(desk.platform)];
  const named = { id: 'coding_cli.file', title: 'configuration of the coding CLI' };
  const layers = readLayers(
    desk,
    { below: managed === undefined ? [] : [managed], user, above: [] },
    { ...named, mend: [moveToTop, renameKeys(names)], secretsOf: (values) => secretsOf(values, desk.env) },
  );
  const auth_path = pathOfFile(names.auth_file, desk.env, names.folder_variable);
  const auth = readAuth(desk, auth_path, names);
  return {
    desk,
    names,
    layers,
    sections: tablesIn(layers.values.model_providers),
    auth_path,
    auth: auth !== undefined && 'text' in auth ? auth : undefined,
    broken_auth: auth !== undefined && 'broken' in auth ? auth.broken : undefined,
    project: readProject(desk, names),
  };
}

function readAuth(desk: Desk, path: string, { key_name }: CodingCliNames) {
  const named = { id: 'coding_cli.auth_file', title: 'file with the key of the coding CLI' };
  const auth = readJsonFile(desk, path, named);
  if (auth === undefined || 'broken' in auth) return auth;
  const wrong = [key_name, 'auth_mode'].find((name) => isTable(auth.values[name]) || Array.isArray(auth.values[name]));
  if (wrong === undefined) return auth;
  const found = `${wrong} is no text`;
  const remedy = `mend it by hand, or move the file away: appscli client coding-cli writes another`;
  const where = positionOf(path, lineInJson(auth.text, [wrong]));
  return { broken: { ...named, verdict: 'failed', where, found, remedy } satisfies Diagnosis };
}

function readProject(desk: Desk, names: CodingCliNames): ClientFile | undefined {
  const path = join(desk.folder, basename(dirname(names.config_file)), basename(names.config_file));
  if (path === pathOfFile(names.config_file, desk.env)) return undefined;
  const { files } = readLayers(
    desk,
    { below: [], user: path, above: [] },
    { id: '', title: '', mend: [], secretsOf: () => [] },
  );
  return files[0];
}

/** Keys of sections, and what stands where a variable should be named and is none. */
function secretsOf(values: Readonly<Record<string, unknown>>, env: NodeJS.ProcessEnv): string[] {
  const tables = [
    values,
    ...tablesIn(values).map(([, table]) => table),
    ...tablesIn(values.model_providers).map(([, table]) => table),
  ];
  return tables.flatMap((table) =>
    Object.entries(table).flatMap(([key, value]) => {
      const texts = [value].flat().filter((text) => typeof text === 'string');
      return texts.filter((text) => {
        if (/^(?:api_key|token|key)$|bearer_token/.test(key)) return ['key', 'padded'].includes(readKeyText(text).kind);
        const meant = OTHER_WORDS_IN_SECTION[key] ?? closest(key, SECTION_KEYS) ?? key;
        return isKeyAnywhere(text) || (meant === 'env_key' && readVariableText(text, env).kind === 'key');
      });
    }),
  );
}

const NAMES = { id: 'coding_cli.names', title: 'names of tables and keys' } as const;

/** Keys that belong to the top of the file, and stand below the header of a table. */
function moveToTop({ path, text, values }: ClientFile, hides: readonly string[]): Diagnosis[] {
  const tables = tablesIn(values).filter(([name]) => !['profiles', 'model_providers', 'agents'].includes(name));
  const sections = tablesIn(values.model_providers).map(([name, table]) => [['model_providers', name], table] as const);
  const places = [...tables.map(([name, table]) => [[name], table] as const), ...sections];
  return places.flatMap(([place, table]) =>
    TOP_KEYS.flatMap((key): Diagnosis[] => {
      const value = table[key];
      // Other tables may well have a model of their own.
      if (value === undefined || (key === 'model' && place.length === 1) || !isFlat({ value })) return [];
      const found = `${key} stands below the header of [${place.join('.')}], and so belongs to that table`;
      const moved = !Object.hasOwn(values, key);
      const fixes = [tomlFix(path, { set: { [key]: value as Scalar }, drop: [[...place, key]] }, hides)];
      const where = positionOf(path, lineInToml(text, [...place, key]));
      const remedy = 'put it at the top of the file, above all tables';
      return [{ ...NAMES, verdict: 'failed', where, found, remedy, ...(moved && { fixes }) }];
    }),
  );
}

/** Keys that the client does not know, and which it must have been told. */
function renameKeys(names: CodingCliNames) {
  return ({ path, text, values }: ClientFile, hides: readonly string[]): Diagnosis[] => {
    const section_keys = [...SECTION_KEYS, names.auth_flag];
    const sections = tablesIn(values.model_providers).flatMap(([name, table]) =>
      Object.keys(table).map((key) => {
        const is_known = KNOWN_IN_SECTION.has(key) || key === names.auth_flag;
        const meant = is_known ? undefined : (OTHER_WORDS_IN_SECTION[key] ?? closest(key, section_keys));
        return { place: ['model_providers', name], table, key, meant };
      }),
    );
    const top = Object.keys(values).map((key) => {
      const is_known = KNOWN_AT_TOP.has(key) || key === names.base_url_key;
      return {
        place: [],
        table: values,
        key,
        meant: is_known ? undefined : (OTHER_WORDS[key] ?? closest(key, TOP_KEYS)),
      };
    });
    return [...top, ...sections].flatMap(({ place, table, key, meant }): Diagnosis[] => {
      const value = table[key];
      if (meant === undefined || isTable(value) || !isFlat({ value })) return [];
      const change = { set: valuesAt([...place, meant], value as Scalar), drop: [[...place, key]] };
      const is_free = !Object.hasOwn(table, meant);
      const where = positionOf(path, lineInToml(text, [...place, key]));
      const found = `the client does not know the key ${[...place, key].join('.')}`;
      const verdict = is_free ? 'failed' : 'warning';
      const fixes = is_free && { fixes: [tomlFix(path, change, hides)] };
      return [{ ...NAMES, verdict, where, found, remedy: `${meant} is probably meant`, ...fixes }];
    });
  };
}

/** A section as it can be written under another name; `undefined` where it holds tables. */
export function flatSection(values: Readonly<Record<string, unknown>>): Values | undefined {
  return isFlat(values) ? (values as Values) : undefined;
}
