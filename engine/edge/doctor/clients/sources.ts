import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import { failed, warning } from '../../../base/contract/checks.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import type { Fields } from '../../../base/kit/json/fields.ts';
import { urlProblem } from '../../../base/kit/net/addresses.ts';
import { printableWord } from '../../../base/kit/text/printable.ts';
import { API_PATH } from '../../client/base-url.ts';
import { BrokenFile, isTable, valueAt } from '../../client-files/broken-file.ts';
import { CLIENTS, type ClientKind, type ClientSpec, isRight, type Row, withRows } from '../../client-files/clients.ts';
import { parseObject } from '../../client-files/json-text.ts';
import { platformOf } from '../../client-files/key-helper.ts';
import { pathOfFile } from '../../client-files/names.ts';
import { lineInToml } from '../../client-files/toml-text.ts';
import type { Diagnosis, Fix, HelperCommand, Workstation } from '../workstation.ts';

/** A configuration source of a client: its environment, or a file. */
export interface Source {
  /** `shell`, `user` and `auth` belong to the user, `local` and `project` to the project, `managed` to an administrator. */
  readonly kind: 'shell' | 'user' | 'auth' | 'project' | 'local' | 'managed';
  readonly path?: string;
  readonly text: string;
  readonly values: Fields;
}

/** A value and its source. */
export interface Found {
  readonly value: unknown;
  readonly source: Source;
}

export type Sources = ReturnType<typeof readSources>;

/** The id of a client's diagnosis: lower-case words with a dot between them. */
export const idOf = (client: ClientKind, ...what: readonly string[]) =>
  [client.replaceAll('-', '_'), ...what].join('.');

/** All configuration sources of a client. */
export function readSources(
  workstation: Workstation,
  client: ClientKind,
  folder_files: readonly (readonly ['project' | 'local', string])[] = [],
) {
  const { files, parse } = CLIENTS[client];
  const { file, folder_variable, managed_file, enforced_file, auth_file } = files(workstation.names);
  const user = pathOfFile(file, workstation.env, folder_variable);
  const auth = auth_file === undefined ? undefined : pathOfFile(auth_file, workstation.env, folder_variable);
  const managed = managed_file[platformOf(workstation.platform)];
  const enforced = enforced_file?.[platformOf(workstation.platform)];
  // The managed file overrides the settings of the Messages client, and is a default for the others.
  const wins = client === 'messages' ? managed : enforced;
  const below = client === 'messages' ? undefined : managed;
  const places: readonly (readonly [Source['kind'], string | undefined])[] = [
    ['managed', below],
    ['user', user],
    ...folder_files.filter(([, path]) => path !== user),
    ['managed', wins],
    ['auth', auth],
  ];
  const broken: Diagnosis[] = [];
  const read = places.flatMap(([kind, path]): Source[] => {
    if (path === undefined) return [];
    try {
      const text = workstation.read(path);
      if (text === undefined) return [];
      const values = text.trim() === '' ? {} : (kind === 'auth' ? parseObject : parse)(text);
      return [{ kind, path, text, values }];
    } catch (error) {
      broken.push(brokenFile(client, path, error));
      return [];
    }
  });
  const shell: Source = { kind: 'shell', text: '', values: { env: workstation.env } };
  const all = [shell, ...read];
  const main = all.filter(({ kind }) => kind !== 'auth');
  const in_key_file: Fields = all.find(({ kind }) => kind === 'auth')?.values ?? {};
  return {
    client,
    paths: { user, auth },
    /** In order of precedence, lowest first. */
    all,
    /** All sources merged, with the shell's variables below `env`; and the key file. */
    values: main.map(({ values }) => values).reduce<Fields>(deepMerge, {}),
    auth: in_key_file,
    /** Files that cannot be read or parsed; and whether the key file is the only one. */
    broken,
    is_auth_broken: broken.length === 1 && broken[0]!.where!.startsWith(`${auth}`),
    /** The effective value: from the source with the highest precedence. */
    find(path: readonly string[], file?: Row['file']): Found | undefined {
      const places = all.filter(({ kind }) => (kind === 'auth') === (file === 'auth'));
      const source = places.findLast(({ values }) => valueAt(values, path) !== undefined);
      return source && { source, value: valueAt(source.values, path) };
    },
  };
}

function brokenFile(client: ClientKind, path: string, error: unknown): Diagnosis {
  if (!(error instanceof BrokenFile || error instanceof StartError)) throw error;
  const line = error instanceof BrokenFile ? error.line : undefined;
  const remedy = 'fix it by hand, or move it away and set up the client again with appscli client';
  return failed(error.message, remedy, {
    ...{ id: idOf(client, 'file'), title: `files of the ${CLIENTS[client].title}` },
    where: line === undefined ? path : `${path}:${line}`,
  });
}

function deepMerge(below: Fields, above: Fields): Fields {
  const result: Record<string, unknown> = { ...below };
  for (const [key, value] of Object.entries(above)) {
    const inner = result[key];
    result[key] = isTable(value) && isTable(inner) ? deepMerge(inner, value) : value;
  }
  return result;
}

/** The position of a setting: a line of a file, or a variable. */
export function placeOf({ path, text, values }: Source, keys: readonly string[]): string {
  if (path === undefined) return `the variable ${keys.at(-1)} of your shell`;
  const deepest = keys
    .map((_, index) => keys.slice(0, keys.length - index))
    .find((each) => valueAt(values, each) !== undefined);
  const line = deepest && (lineInJson(text, deepest) ?? lineInToml(text, deepest));
  return line === undefined ? path : `${path}:${line}`;
}

function lineInJson(text: string, keys: readonly string[]): number | undefined {
  try {
    const tree = /^\s*\{/.test(text) ? parseTree(text) : undefined;
    const value = tree && findNodeAtLocation(tree, [...keys]);
    return value && text.slice(0, (value.parent ?? value).offset).split('\n').length;
  } catch {
    // The parser raises for deep nesting.
    return undefined;
  }
}

function shownValue(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  if ([text, ...text.split(/[^\w=+-]+/)].some(isKeyAnywhere)) return 'a key';
  return printableWord(text.length > 100 ? `${text.slice(0, 100)}...` : text);
}

/** Ids of rows whose value may be a key; it is never shown. */
const OF_KEYS = /^(?:key|api_key|env_key|key_variable)$/;

/** Settings that differ from what `appscli client` would write, each with its fix. */
export function compare(
  { env }: Pick<Workstation, 'env'>,
  sources: Sources,
  rows: readonly Row[],
  hides: readonly string[],
): Diagnosis[] {
  const { client, paths } = sources;
  return rows.flatMap((each): Diagnosis[] => {
    const found = sources.find(each.path, each.file);
    const row = found === undefined ? { ...each, ...each.absent } : each;
    const { id, why, path, value, file } = row;
    const all = file === 'auth' ? sources.auth : sources.values;
    if (id === undefined || isRight(row, found?.value, all)) return [];
    const target = found?.source ?? sources.all.find(({ kind }) => kind === (file ?? 'user'));
    const user_path = file === 'auth' ? paths.auth : paths.user;
    const key = path.at(-1)!;
    const is = found === undefined ? 'is missing' : whatIs(row, found.value, env);
    const is_managed = target?.kind === 'managed';
    const isOwn = ({ kind }: Source) => kind !== 'managed' && kind !== 'shell';
    // Removed from one file only, the value of the next file would apply.
    const setting = sources.all.filter((source) => isOwn(source) && valueAt(source.values, path) !== undefined);
    const places = value === undefined ? setting.map((source) => source.path!) : [target?.path ?? user_path!];
    const is_fixable = !row.is_manual && (target === undefined || isOwn(target)) && places.length > 0;
    return [
      (row.is_minor ? warning : failed)(
        `${key} ${is}: ${why}`,
        `${howTo(row, target)}${is_managed ? ' (an administrator has to)' : ''}`,
        {
          ...{ id: idOf(client, id), title: `${id.replaceAll('_', ' ')} of the ${CLIENTS[client].title}` },
          where: target === undefined ? user_path! : placeOf(target, path),
          ...(is_fixable && { fixes: places.map((place) => fixOf(client, place, row, hides)) }),
        },
      ),
    ];
  });
}

/** Describes the content of a key or variable-name field without showing it. */
const KEY_IS = {
  key: 'contains a key',
  padded: 'contains the word Bearer or white space beside the key',
  name: 'names a variable',
  reference: 'names a variable',
  placeholder: 'contains a placeholder',
  empty: 'is empty or a placeholder',
};

function whatIs({ id = '', value }: Row, found: unknown, env: Workstation['env']): string {
  if (id === 'env_key') {
    const read = [found].flat().map((text) => readVariableText(String(text), env));
    const text = read.find(({ kind }) => kind !== 'name') ?? read[0] ?? ({ kind: 'empty' } as const);
    if (!('name' in text)) return KEY_IS[text.kind];
    const name = shownValue(text.name);
    if (text.kind === 'reference') return `is not just the name ${name}`;
    return `names ${name}${(env[text.name] ?? '') === '' ? ', which is not set' : ''}`;
  }
  if (OF_KEYS.test(id)) return value === undefined ? 'is set' : KEY_IS[readKeyText(String(found)).kind];
  const is_shown = value !== undefined || /^(?:context_window|default_model)$/.test(id);
  return is_shown ? `is ${shownValue(found)}` : 'is set';
}

function howTo({ path, value, id = '' }: Row, target: Source | undefined): string {
  const key = path.at(-1)!;
  const is_shell = target?.kind === 'shell';
  if (value === undefined) {
    if (target !== undefined && valueAt(target.values, path) === undefined)
      return `set ${key} to the model's context window: appscli client --check reads it from the gateway`;
    return is_shell ? `unset ${key}, and remove it from your shell profile` : `remove ${key}`;
  }
  const shown = OF_KEYS.test(id) && id !== 'env_key' ? 'the key alone' : shownValue(value);
  return is_shell ? `export ${key}=${shown}` : `set ${key} to ${shown}`;
}

function fixOf(client: ClientKind, path: string, row: Row, hides: readonly string[]): Fix {
  return { path, change: (before) => withRows(client, row.file, before, [row]), secret: hides.length > 0, hides };
}

export function fixFor(sources: Sources, row: Row, hides: readonly string[]): Pick<Diagnosis, 'fixes'> {
  const owner = sources.find(row.path)?.source;
  if (owner !== undefined && owner.kind !== 'user') return {};
  return { fixes: [fixOf(sources.client, sources.paths.user, row, hides)] };
}

const OTHERS = 0o077;

export function checkFileMode(
  workstation: Pick<Workstation, 'rights'>,
  path: string | undefined,
  named: Pick<Diagnosis, 'id' | 'title'>,
): Diagnosis[] {
  const rights = path === undefined ? undefined : workstation.rights(path);
  if (path === undefined || rights === undefined || (rights & OTHERS) === 0) return [];
  return [
    warning(
      `contains a credential, and other users of this machine can read it (mode ${rights.toString(8).padStart(4, '0')})`,
      'chmod 600 it; create a new token if other people use this machine',
      { ...named, where: path, fixes: [{ path, change: (before: string) => before, secret: true }] },
    ),
  ];
}

/** A client's configuration for its gateway. */
export interface Reading {
  readonly spec?: ClientSpec | undefined;
  /** The credential that the client would send, if known without running a helper. */
  readonly token?: string | undefined;
  readonly helper?: HelperCommand | undefined;
  readonly more_models?: readonly string[];
  /** Other entries of its file for the same gateway; only their own keys are compared. */
  readonly others?: readonly ClientSpec[];
  /** Whether a project file, which is untrusted, names the gateway. */
  readonly is_of_folder?: boolean;
  readonly findings?: readonly Diagnosis[];
}

/** The root address of a gateway, without `/v1` or an API path; `undefined` for an invalid address. */
export function rootOf(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  const address = text
    .trim()
    .replace(/^(["'])(.*)\1$/, '$2')
    .replace(/\/+$/, '');
  return urlProblem(address, 'base') === undefined
    ? address.replace(API_PATH, '').replace(/(?:\/v1)+$/, '')
    : undefined;
}

export function noAddress(client: ClientKind, { source, value }: Found, path: readonly string[]): Diagnosis {
  const problem = typeof value === 'string' ? urlProblem(value.trim(), 'base') : 'not a string';
  return failed(
    `${path.at(-1)} is not a usable address: ${problem}`,
    'set it to the address of the gateway, such as https://gateway.example.com',
    {
      ...{ id: idOf(client, 'address'), title: `address of the gateway of the ${CLIENTS[client].title}` },
      where: placeOf(source, path),
    },
  );
}

export function noKey({ client }: Sources, where: string, found: string, remedy: string): Diagnosis {
  return failed(found, remedy, { id: idOf(client, 'key'), title: `key of the ${CLIENTS[client].title}`, where });
}

export function helperOf(table: unknown, where: string): HelperCommand | undefined {
  const { command, args = [] } = isTable(table) ? table : {};
  if (typeof command !== 'string' || command === '') return undefined;
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === 'string')) return undefined;
  return { command: { program: command, args }, where };
}

/** The context window in a file, in tokens: a number, also in quotes. */
export function windowOf(value: unknown): number | undefined {
  const tokens = typeof value === 'string' ? Number(value.replaceAll(/[_, ]/g, '')) : value;
  return typeof tokens === 'number' && Number.isSafeInteger(tokens) ? tokens : undefined;
}

/** Assumed context window of long-context models, in tokens. */
export const USUAL_WINDOW = 500_000;

/** Classification of a text in a field for a key or for the name of a variable: usable, or a common mistake. */
type FieldText =
  | { readonly kind: 'key' | 'padded'; readonly key: string }
  | { readonly kind: 'name' | 'reference'; readonly name: string }
  | { readonly kind: 'placeholder' | 'empty' };

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const REFERENCE = /^\$(?:env:)?\{?([A-Za-z_][A-Za-z0-9_]*)\}?$/;
const BEARER = /^bearer\s+/i;
const PLACEHOLDER = /^(?:<.*>|(?:your|my|the)[-_ ]?(?:api[-_ ]?)?(?:key|token).*|x{3,}|\.{3,}|…|changeme|todo)$/i;

/** Classifies the value of a variable-name field. The name of a set variable is always a name. */
export function readVariableText(text: string, env: NodeJS.ProcessEnv): FieldText {
  const name = text.trim();
  const read = readKeyText(text);
  if (env[name] !== undefined || ('name' in read && read.name === name)) return { kind: 'name', name };
  if (!('key' in read)) return read;
  const { key } = read;
  const is_like_a_name = VARIABLE.test(key) && (key === key.toUpperCase() || !/\d/.test(key) || !looksLikeKey(key));
  return is_like_a_name ? { kind: 'name', name } : { kind: 'key', key };
}

/** Classifies the value of a key field. A variable name in capitals and `$NAME` count as references. */
export function readKeyText(text: string): FieldText {
  const trimmed = text.trim();
  if (trimmed === '') return { kind: 'empty' };
  if (PLACEHOLDER.test(trimmed)) return { kind: 'placeholder' };
  const reference = REFERENCE.exec(trimmed)?.[1];
  if (reference !== undefined) return { kind: 'reference', name: reference };
  if (/^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN)$/.test(trimmed)) return { kind: 'reference', name: trimmed };
  const key = trimmed.replace(BEARER, '');
  return { kind: key === text ? 'key' : 'padded', key };
}

/** The key in a configured value, without a `Bearer` prefix or white space; `undefined` if there is none. */
export function keyIn(value: unknown): string | undefined {
  const text = typeof value === 'string' ? readKeyText(value) : undefined;
  return text !== undefined && 'key' in text ? text.key : undefined;
}

const BEGINNING = /^(?:gw|sk|pk|xai|key)[-_](?=.*\d)[A-Za-z0-9_-]{8,}$/i;
const WITHOUT_WORDS = /^(?=.*\d)(?=.*[a-z])[A-Za-z0-9_=+]{32,}$/;

/** Whether a text is unmistakably a key in any context. Model ids do not match. */
export function isKeyAnywhere(text: string): boolean {
  const key = text.trim().replace(BEARER, '');
  return BEGINNING.test(key) || WITHOUT_WORDS.test(key);
}

/** Whether a text resembles a credential: long, with letters and digits, unlike a sentence, address or name. */
function looksLikeKey(text: string): boolean {
  if (/^(?:gw|sk|pk|xai|key)[-_][A-Za-z0-9_-]{8,}$/i.test(text)) return true;
  return /^[A-Za-z0-9_\-.=+/]{24,}$/.test(text) && /\d/.test(text) && /[a-z]/.test(text);
}
