import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import { failed, warning } from '../../../base/contract/checks.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { urlProblem } from '../../../base/kit/net/addresses.ts';
import { printableWord } from '../../../base/kit/text/printable.ts';
import { API_PATH } from '../../client/base-url.ts';
import { BrokenFile, isTable, valueAt } from '../../client-files/broken-file.ts';
import { CLIENTS, type ClientKind, type ClientSpec, isRight, type Row, withRows } from '../../client-files/clients.ts';
import { parseObject } from '../../client-files/json-text.ts';
import { platformOf } from '../../client-files/key-helper.ts';
import { pathOfFile } from '../../client-files/names.ts';
import { lineInToml } from '../../client-files/toml-text.ts';
import type { Desk, Diagnosis, Fix, HelperCommand } from '../desk.ts';
import { isKeyAnywhere, readKeyText, readVariableText } from './credential-text.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A place where a client is told something: its environment, or a file. */
export interface Source {
  /** `shell`, `user` and `auth` are the person's own, `local` and `project` of the folder, `managed` of an administrator. */
  readonly kind: 'shell' | 'user' | 'auth' | 'project' | 'local' | 'managed';
  readonly path?: string;
  readonly text: string;
  readonly values: Fields;
}

/** A value with the place that says it. */
export interface Found {
  readonly value: unknown;
  readonly source: Source;
}

/** Everything that a client reads. */
export interface Sources {
  readonly client: ClientKind;
  /** The file that belongs to the person, and that of its key. */
  readonly paths: { readonly user: string; readonly auth: string | undefined };
  /** Lowest first. */
  readonly all: readonly Source[];
  /** All of them as one, with that of the shell below `env`; and the file with the key. */
  readonly values: Fields;
  readonly auth: Fields;
  /** Files that can't be read or understood; and whether that of the key is the only one. */
  readonly broken: readonly Diagnosis[];
  readonly is_auth_broken: boolean;
  /** A value as the client has it: of several places the one that wins. */
  find(path: readonly string[], file?: Row['file']): Found | undefined;
}

/** An id of a finding: lower-case words with a dot between them. */
export const idOf = (client: ClientKind, what: string) => `${client.replaceAll('-', '_')}.${what}`;

/** Reads the files and variables of a client, of which `folder_files` are files of the folder it is started in. */
export function readSources(
  desk: Desk,
  client: ClientKind,
  folder_files: readonly (readonly ['project' | 'local', string])[] = [],
): Sources {
  const { files, parse } = CLIENTS[client];
  const { file, folder_variable, managed_file, enforced_file, auth_file } = files(desk.names);
  const user = pathOfFile(file, desk.env, folder_variable);
  const auth = auth_file === undefined ? undefined : pathOfFile(auth_file, desk.env, folder_variable);
  const managed = managed_file[platformOf(desk.platform)];
  const enforced = enforced_file?.[platformOf(desk.platform)];
  // What an administrator writes wins over the settings of the Messages client, and is a default of the others.
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
      const text = desk.read(path);
      if (text === undefined) return [];
      const values = text.trim() === '' ? {} : (kind === 'auth' ? parseObject : parse)(text);
      return [{ kind, path, text, values }];
    } catch (error) {
      broken.push(brokenFile(client, path, error));
      return [];
    }
  });
  const shell: Source = { kind: 'shell', text: '', values: { env: desk.env } };
  const all = [shell, ...read];
  const main = all.filter(({ kind }) => kind !== 'auth');
  return {
    client,
    paths: { user, auth },
    all,
    values: main.map(({ values }) => values).reduce<Fields>(deepMerge, {}),
    auth: all.find(({ kind }) => kind === 'auth')?.values ?? {},
    broken,
    is_auth_broken: broken.length === 1 && broken[0]!.where!.startsWith(`${auth}`),
    find(path, file) {
      const places = all.filter(({ kind }) => (kind === 'auth') === (file === 'auth'));
      const source = places.findLast(({ values }) => valueAt(values, path) !== undefined);
      return source && { source, value: valueAt(source.values, path) };
    },
  };
}

function brokenFile(client: ClientKind, path: string, error: unknown): Diagnosis {
  if (!(error instanceof BrokenFile || error instanceof StartError)) throw error;
  const line = error instanceof BrokenFile ? error.line : undefined;
  const remedy = 'mend it by hand, or move it away and set the client up again with appscli client';
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

/** Where something is said: a line of a file, or a variable. */
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
    // It is nested too deeply to be looked at.
    return undefined;
  }
}

/** A value as it may be shown: never one that may be a key. */
function shownValue(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  if ([text, ...text.split(/[^\w=+-]+/)].some(isKeyAnywhere)) return 'a key';
  return printableWord(text.length > 100 ? `${text.slice(0, 100)}...` : text);
}

/** Findings whose value may be a key are told without it. */
const OF_KEYS = /^(?:key|api_key|env_key|key_variable)$/;

/** What is not as the command `client` would write it, each with how it is put right. */
export function compare(
  { env }: Pick<Desk, 'env'>,
  sources: Sources,
  rows: readonly Row[],
  hides: readonly string[],
): Diagnosis[] {
  const { client, paths } = sources;
  return rows.flatMap((given): Diagnosis[] => {
    const found = sources.find(given.path, given.file);
    const row = found === undefined ? { ...given, ...given.absent } : given;
    const { id, why, path, value, file } = row;
    const all = file === 'auth' ? sources.auth : sources.values;
    if (id === undefined || isRight(row, found?.value, all)) return [];
    const target = found?.source ?? sources.all.find(({ kind }) => kind === (file ?? 'user'));
    const user_path = file === 'auth' ? paths.auth : paths.user;
    const key = path.at(-1)!;
    const is = found === undefined ? 'is missing' : whatIs(row, found.value, env);
    const is_managed = target?.kind === 'managed';
    const isOwn = ({ kind }: Source) => kind !== 'managed' && kind !== 'shell';
    // Taken away in one file, it would count in the one below.
    const said = sources.all.filter((source) => isOwn(source) && valueAt(source.values, path) !== undefined);
    const places = value === undefined ? said.map((source) => source.path!) : [target?.path ?? user_path!];
    const is_fixable = !row.is_manual && (target === undefined || isOwn(target)) && places.length > 0;
    return [
      (row.is_minor ? warning : failed)(
        `${key} ${is}: ${why}`,
        `${howTo(row, target)}${is_managed ? ', which an administrator has to do' : ''}`,
        {
          ...{ id: idOf(client, id), title: `${id.replaceAll('_', ' ')} of the ${CLIENTS[client].title}` },
          where: target === undefined ? user_path! : placeOf(target, path),
          ...(is_fixable && { fixes: places.map((place) => fixOf(client, place, row, hides)) }),
        },
      ),
    ];
  });
}

/** What stands in place of a key, or of the name of a variable, without showing it. */
const KEY_IS = {
  key: 'holds a key',
  padded: 'has the word Bearer or white space beside the key',
  reference: 'names a variable',
  placeholder: 'holds what stands for a key in examples',
  empty: 'is empty, or what stands there in examples',
};

function whatIs({ id = '', value }: Row, found: unknown, env: Desk['env']): string {
  if (id === 'env_key') {
    const read = [found].flat().map((text) => readVariableText(String(text), env));
    const text = read.find(({ kind }) => kind !== 'name') ?? read[0] ?? ({ kind: 'empty' } as const);
    if (!('name' in text)) return KEY_IS[text.kind];
    const name = shownValue(text.name);
    if (text.kind === 'reference') return `is not the name ${name} alone`;
    return `names ${name}${(env[text.name] ?? '') === '' ? ', which is not set here' : ''}`;
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
      return `set ${key} to what the model takes: appscli client --check asks the gateway for it`;
    return is_shell ? `unset ${key}, and take it out of what your shell reads at its start` : `take ${key} away`;
  }
  const shown = OF_KEYS.test(id) && id !== 'env_key' ? 'the key alone' : shownValue(value);
  return is_shell ? `export ${key}=${shown}` : `set ${key} to ${shown}`;
}

function fixOf(client: ClientKind, path: string, row: Row, hides: readonly string[]): Fix {
  return { path, change: (before) => withRows(client, row.file, before, [row]), secret: hides.length > 0, hides };
}

/** A change of the person's own file that sets one key of it. */
export function fixFor(sources: Sources, row: Row, hides: readonly string[]): Pick<Diagnosis, 'fixes'> {
  const owner = sources.find(row.path)?.source;
  if (owner !== undefined && owner.kind !== 'user') return {};
  return { fixes: [fixOf(sources.client, sources.paths.user, row, hides)] };
}

const OTHERS = 0o077;

/** What is wrong with the rights of a file that holds a credential; nothing where only its owner may use it. */
export function examineRights(
  desk: Pick<Desk, 'rights'>,
  path: string | undefined,
  named: Pick<Diagnosis, 'id' | 'title'>,
): Diagnosis[] {
  const rights = path === undefined ? undefined : desk.rights(path);
  if (path === undefined || rights === undefined || (rights & OTHERS) === 0) return [];
  return [
    warning(
      `it holds a credential, and other users of this machine may use it (mode ${rights.toString(8).padStart(4, '0')})`,
      'chmod 600 it; make another token if somebody else works at this machine',
      { ...named, where: path, fixes: [{ path, change: (before: string) => before, secret: true }] },
    ),
  ];
}

/** What the files and variables of a client want of a gateway. */
export interface Reading {
  /** What `appscli client` would be told to write what is right in them; `undefined` where nothing is said of a gateway. */
  readonly spec?: ClientSpec | undefined;
  /** The credential that the client would send, where that is known without running anything. */
  readonly token?: string | undefined;
  readonly helper?: HelperCommand | undefined;
  readonly more_models?: readonly string[];
  /** Other entries of its file with the same gateway, of which only what is below them is looked at. */
  readonly others?: readonly ClientSpec[];
  /** Whether a file of the folder names the gateway, which may come from anybody. */
  readonly is_of_folder?: boolean;
  /** What no comparison of keys shows. */
  readonly findings?: readonly Diagnosis[];
}

/** The gateway that an address is meant for, without `/v1` and the like; `undefined` for what is no address. */
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

/** What is said of an address that leads nowhere. */
export function noAddress(client: ClientKind, { source, value }: Found, path: readonly string[]): Diagnosis {
  const problem = typeof value === 'string' ? urlProblem(value.trim(), 'base') : 'it is no text';
  return failed(
    `${path.at(-1)} is no address that the client can use: ${problem}`,
    'write the address of the gateway, such as https://gateway.example.com',
    {
      ...{ id: idOf(client, 'address'), title: `address of the gateway of the ${CLIENTS[client].title}` },
      where: placeOf(source, path),
    },
  );
}

/** What is said where a client has no key for its gateway. */
export function noKey({ client }: Sources, where: string, found: string, remedy: string): Diagnosis {
  return failed(found, remedy, { id: idOf(client, 'key'), title: `key of the ${CLIENTS[client].title}`, where });
}

/** A helper of a TOML file: a command and its arguments. */
export function helperOf(table: unknown, where: string): HelperCommand | undefined {
  const { command, args = [] } = isTable(table) ? table : {};
  if (typeof command !== 'string' || command === '') return undefined;
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === 'string')) return undefined;
  return { command: { program: command, args }, where };
}

/** The window that a file means: a number, also one in quotes. */
export function windowOf(value: unknown): number | undefined {
  const meant = typeof value === 'string' ? Number(value.replaceAll(/[_, ]/g, '')) : value;
  return typeof meant === 'number' && Number.isSafeInteger(meant) ? meant : undefined;
}

/** What long-context models of a gateway take, where nothing better is known. In tokens. */
export const USUAL_WINDOW = 500_000;
