import { BrokenFile, isTable, type Values } from '../../client-files/broken-file.ts';
import { lineInToml } from '../../client-files/toml-lines.ts';
import { mergeToml, parseToml } from '../../client-files/toml-text.ts';
import type { Desk } from '../desk.ts';
import type { Diagnosis, Fix } from '../diagnosis.ts';
import { type ClientFile, positionOf, readClientFile } from './client-file.ts';

/** TOML files of a client that are read as one: what a later one says wins. */
export interface TomlLayers {
  /** The file that belongs to the person, and that may be changed. */
  readonly user_path: string;
  readonly user: ClientFile | undefined;
  /** The lowest first. */
  readonly files: readonly ClientFile[];
  readonly values: Readonly<Record<string, unknown>>;
  /** Files that can't be read or understood. */
  readonly broken: readonly Diagnosis[];
  /** What was wrong with the form of the user's file; `values` are those after these changes. */
  readonly mended: readonly Diagnosis[];
  /** Texts of the user's file that must not be shown. */
  readonly secrets: readonly string[];
}

/** What puts the form of a file right before its values are looked at, such as a key in the wrong table. */
export type MendForm = (file: ClientFile, hides: readonly string[]) => readonly Diagnosis[];

/** Reads the layers of a client. */
export function readLayers(
  desk: Desk,
  paths: { readonly below: readonly string[]; readonly user: string; readonly above: readonly string[] },
  how: Pick<Diagnosis, 'id' | 'title'> & {
    /** Made one after the other: each sees what the one before put right. */
    readonly mend: readonly MendForm[];
    readonly secretsOf: (values: Readonly<Record<string, unknown>>) => readonly string[];
  },
): TomlLayers {
  const read = (path: string) => readClientFile(desk, path, { ...how, parse: parseToml });
  const found = [...paths.below, paths.user, ...paths.above].map(read).filter((each) => each !== undefined);
  const broken = found.flatMap((each) => ('broken' in each ? [each.broken] : []));
  const files = found.flatMap((each) => ('broken' in each ? [] : [each]));
  const user = files.find(({ path }) => path === paths.user);
  const secrets = user === undefined ? [] : how.secretsOf(user.values);
  const mended: Diagnosis[] = [];
  for (const mend of user === undefined ? [] : how.mend) {
    mended.push(...mend({ ...user!, values: mendedValues(user!, mended) }, secrets));
  }
  const layers = files.map(({ path, values }) => (path === paths.user ? mendedValues(user!, mended) : values));
  return {
    user_path: paths.user,
    user,
    files,
    broken,
    mended,
    secrets,
    values: layers.reduce<Record<string, unknown>>(deepMerge, {}),
  };
}

function mendedValues(user: ClientFile, mended: readonly Diagnosis[]): Readonly<Record<string, unknown>> {
  const fixes = mended.flatMap(({ fixes = [] }) => fixes).filter(({ path }) => path === user.path);
  if (fixes.length === 0) return user.values;
  try {
    return parseToml(fixes.reduce<string>((text, { change }) => change(text) ?? '', user.text));
  } catch (error) {
    // Whoever makes these changes is told why they can't be made.
    if (error instanceof BrokenFile) return user.values;
    throw error;
  }
}

function deepMerge(
  below: Readonly<Record<string, unknown>>,
  above: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const result = { ...below };
  for (const [key, value] of Object.entries(above)) {
    const inner = result[key];
    result[key] = isTable(value) && isTable(inner) ? deepMerge(inner, value) : value;
  }
  return result;
}

/** A value at a path; `undefined` where there is none. */
export function valueAt(values: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (found, key) => (isTable(found) && Object.hasOwn(found, key) ? found[key] : undefined),
    values,
  );
}

/** The tables in a table, by name. */
export function tablesIn(value: unknown): [name: string, table: Record<string, unknown>][] {
  return Object.entries(isTable(value) ? value : {}).filter((entry): entry is [string, Record<string, unknown>] =>
    isTable(entry[1]),
  );
}

/** Where a key is said: the file that decides, with the line; the user's file where none says it. */
export function whereIs(layers: TomlLayers, path: readonly string[]): string {
  const file = ownerOf(layers, path);
  if (file === undefined) return layers.user_path;
  const lines = path.map((_, i) => lineInToml(file.text, path.slice(0, path.length - i)));
  return positionOf(
    file.path,
    lines.find((line) => line !== undefined),
  );
}

function ownerOf(layers: TomlLayers, path: readonly string[]): ClientFile | undefined {
  return layers.files.findLast(({ values }) => valueAt(values, path) !== undefined);
}

/** How the user's file is changed; nothing where the key at `path` comes from a file of an administrator. */
export function fixToml(
  layers: TomlLayers,
  path: readonly string[],
  change: { readonly set?: Values; readonly drop?: readonly (readonly string[])[] },
): Pick<Diagnosis, 'fixes'> {
  const owner = ownerOf(layers, path);
  if (owner !== undefined && owner.path !== layers.user_path) return {};
  return { fixes: [tomlFix(layers.user_path, change, layers.secrets)] };
}

/** A change of a TOML file; with texts to hide it is one that holds a credential. */
export function tomlFix(
  path: string,
  { set = {}, drop = [] }: { readonly set?: Values; readonly drop?: readonly (readonly string[])[] },
  hides: readonly string[],
): Fix {
  return { path, change: (before) => mergeToml(before ?? '', set, drop), secret: hides.length > 0, hides };
}

/** Values at a path. */
export function valuesAt(path: readonly string[], value: Values[string]): Values {
  return path.reduceRight<Values[string]>((inner, key) => ({ [key]: inner }), value) as Values;
}

/** Whether a table has values only that can be written anew. */
export function isFlat(table: Readonly<Record<string, unknown>>): boolean {
  const isPlain = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value);
  const isText = (value: unknown) => typeof value === 'string';
  return Object.values(table).every((value) => isPlain(value) || (Array.isArray(value) && value.every(isText)));
}
