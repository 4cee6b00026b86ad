import { dirname, join } from 'node:path';
import { isTable, type Values } from '../../../client-files/broken-file.ts';
import { mergeJson } from '../../../client-files/json-text.ts';
import { platformOf } from '../../../client-files/key-helper.ts';
import { pathOfFile } from '../../../client-files/names.ts';
import type { Desk } from '../../desk.ts';
import type { Diagnosis, Fix } from '../../diagnosis.ts';
import { lineInJson, positionOf, readJsonFile } from '../client-file.ts';

/** Where the Messages client reads variables and settings: files win over the shell, and later ones over earlier ones. */
export type SourceKind = 'shell' | 'user' | 'project' | 'local' | 'managed';

/** One of these places. */
export interface Source {
  readonly kind: SourceKind;
  /** Of a file. */
  readonly path?: string;
  readonly text: string;
  readonly values: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string>>;
}

/** A value that was found, and where. */
export interface Found {
  readonly name: string;
  readonly value: string;
  readonly where: string;
  readonly source: Source;
}

/** What the Messages client is told, wherever it is told it. */
export interface Settings {
  /** Lowest first. */
  readonly sources: readonly Source[];
  /** The variable as the client has it: of several the one that wins. */
  variable(name: string): Found | undefined;
  /** The variable in each place that has it, the one that wins last. */
  everywhere(name: string): readonly Found[];
  /** A setting outside of `env`, as the client has it. */
  setting(name: string): Found | undefined;
}

/** Reads all settings of the Messages client, with what is wrong with the files themselves. */
export function readSettings(desk: Desk): { readonly settings: Settings; readonly diagnoses: readonly Diagnosis[] } {
  const read = filesOf(desk).map(([kind, path]) => readSource(desk, kind, path));
  const shell: Source = { kind: 'shell', text: '', values: {}, env: textsOf(desk.env) };
  const sources = [shell, ...read.flatMap(({ source }) => source ?? [])];
  return { settings: settingsFrom(sources), diagnoses: read.flatMap(({ diagnoses }) => diagnoses) };
}

/** The path of the user's own settings. */
export function userSettingsPath({ env, names }: Pick<Desk, 'env' | 'names'>): string {
  return pathOfFile(names.messages.settings_file, env, names.messages.folder_variable);
}

function filesOf(desk: Desk): (readonly [Exclude<SourceKind, 'shell'>, string])[] {
  const { settings_file, managed_file } = desk.names.messages;
  // A project has a folder of the same name as the one at home.
  const folder = join(desk.folder, dirname(settings_file).split(/[\\/]/).at(-1)!);
  const managed = managed_file[platformOf(desk.platform)];
  const user = userSettingsPath(desk);
  const all = [
    ['user', user],
    ['project', join(folder, 'settings.json')],
    ['local', join(folder, 'settings.local.json')],
    ...(managed === undefined ? [] : [['managed', managed] as const]),
  ] as const;
  // At home the settings of the project are those of the user.
  return all.filter(([kind, path]) => kind === 'user' || path !== user);
}

const NAMED = { id: 'messages.settings', title: 'settings' };

function readSource(
  desk: Desk,
  kind: SourceKind,
  path: string,
): { readonly source?: Source; readonly diagnoses: readonly Diagnosis[] } {
  const file = readJsonFile(desk, path, NAMED);
  if (file === undefined) return { diagnoses: [] };
  if ('broken' in file) {
    const details = ['the client takes nothing from such a file, as if it were not there'];
    return { diagnoses: [{ ...file.broken, details }] };
  }
  const { text, values } = file;
  const env = isTable(values.env) ? values.env : {};
  const source: Source = { kind, path, text, values, env: textsOf(env) };
  if (values.env === undefined || isTable(values.env)) return { source, diagnoses: [] };
  const wrong: Diagnosis = {
    ...NAMED,
    verdict: 'failed',
    where: positionOf(path, lineInJson(text, ['env'])),
    found: 'env is no object in braces, so no variable is taken from it',
    remedy: 'write "env": { "NAME": "value" }',
  };
  return { source, diagnoses: [wrong] };
}

/** Numbers and booleans are taken as they are written. */
function textsOf(env: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (['string', 'number', 'boolean'].includes(typeof value)) texts[name] = String(value);
  }
  return texts;
}

function settingsFrom(sources: readonly Source[]): Settings {
  const everywhere = (name: string) =>
    sources.flatMap((source): Found[] =>
      Object.hasOwn(source.env, name)
        ? [{ name, value: source.env[name]!, where: placeOf(source, ['env', name]), source }]
        : [],
    );
  return {
    sources,
    everywhere,
    variable: (name) => everywhere(name).at(-1),
    setting: (name) =>
      sources
        .flatMap((source): Found[] => {
          const value = source.values[name];
          return typeof value === 'string' ? [{ name, value, where: placeOf(source, [name]), source }] : [];
        })
        .at(-1),
  };
}

/** Where something is said: a line of a file, or a variable. */
export function placeOf({ path, text }: Source, keys: readonly string[]): string {
  return path === undefined ? `the variable ${keys.at(-1)} of your shell` : positionOf(path, lineInJson(text, keys));
}

/** Whether a variable that switches something on does. */
export function isOn(found: Pick<Found, 'value'> | undefined): boolean {
  return found !== undefined && !['', '0', 'false', 'no', 'off'].includes(found.value.trim().toLowerCase());
}

/** Whether a variable says anything. */
export function isSet(found: Found | undefined): found is Found {
  return found !== undefined && found.value.trim() !== '';
}

const CREDENTIAL_NAME = /(?:_AUTH_TOKEN|_API_KEY|_OAUTH_TOKEN|_CUSTOM_HEADERS|_OTLP_HEADERS)$/;

/** Whether a variable of this name holds a credential. */
export function isCredential(name: string): boolean {
  return CREDENTIAL_NAME.test(name);
}

/** Names of the variables in the `env` of a file that hold credentials. */
export function credentialsIn({ env }: Source): string[] {
  return Object.keys(env).filter((name) => isCredential(name) && env[name]!.trim() !== '');
}

/** A change of the file where something was found; none where it is in a shell, or in a file of an administrator. */
export function mended(
  source: Source,
  { values = {}, drops = [] }: { readonly values?: Values; readonly drops?: readonly (readonly string[])[] },
): readonly Fix[] | undefined {
  const { kind, path } = source;
  if (path === undefined || kind === 'managed') return undefined;
  // A file of a project belongs to others, too.
  const secret = kind !== 'project' && credentialsIn(source).length > 0;
  const hides = credentialsIn(source).flatMap((name) => [
    source.env[name]!,
    source.env[name]!.replace(/^bearer\s+/i, ''),
  ]);
  return [{ path, change: (before) => mergeJson(before ?? '', values, drops), secret, hides }];
}

/** The part of a diagnosis that mends it; nothing where no file of the person can be changed. */
export function fixIn(source: Source, change: Parameters<typeof mended>[1]): Pick<Diagnosis, 'fixes'> {
  const fixes = mended(source, change);
  return fixes === undefined ? {} : { fixes };
}

/** How a variable is taken away, or given another value. */
export function howToChange({ source, name }: Pick<Found, 'source' | 'name'>, value?: string): string {
  if (source.kind === 'shell')
    return value === undefined
      ? `unset ${name}, and take it out of what your shell reads at its start`
      : `export ${name}=${value}`;
  const whose = source.kind === 'managed' ? ', which an administrator has to do' : '';
  return value === undefined
    ? `take ${name} out of env in ${source.path}${whose}`
    : `set ${name} to ${value} in ${source.path}${whose}`;
}

/** What is wrong where the place that wins says nothing of a variable, and so takes away what another says; `all` of it, the one that wins last. */
export function emptied(all: readonly Found[], named: Pick<Diagnosis, 'id' | 'title'>): Diagnosis[] {
  const [found, lost] = [all.at(-1), all.find(isSet)];
  if (found === undefined || found.value.trim() !== '' || lost === undefined) return [];
  return [
    {
      ...named,
      verdict: 'failed',
      where: found.where,
      found: `it is empty, and wins over ${lost.where}`,
      remedy: howToChange(found),
      ...fixIn(found.source, { drops: [['env', found.name]] }),
    },
  ];
}
