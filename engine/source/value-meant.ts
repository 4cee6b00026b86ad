/** What was probably meant by a value of another type than the schema wants. */

import type { JsonSchema } from '../contract/json-schema.ts';
import { numberMeant } from '../kit/number-meant.ts';
import { secretKeys } from '../kit/secret-names.ts';
import { slipMeant } from '../kit/text/suggest.ts';
import { looksSecret } from './diagnostics/secrets.ts';
import type { Node } from './node.ts';

const quoted = (text: string): string => (/^[\w./:-]+$/.test(text) ? text : JSON.stringify(text));

/** A value in YAML's flow style, such as { a: [1, b] }. */
export function flow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return typeof value === 'string' ? quoted(value) : String(value);
  return `{ ${Object.entries(value)
    .map(([key, item]) => `${key}: ${flow(item)}`)
    .join(', ')} }`;
}

/** What to write instead, as an advice that can be pasted; `undefined` when that is anybody's guess. */
export function valueMeant(
  wanted: readonly string[],
  node: Node,
  key: string,
  schema: JsonSchema = {},
): string | undefined {
  const { examples, properties, items } = schema as {
    examples?: readonly unknown[];
    properties?: object;
    items?: JsonSchema;
  };
  const is_entry = properties !== undefined && 'stage' in properties;
  return (
    (node.kind === 'scalar' && typeof node.value === 'string' ? slipMeant(node.value) : undefined) ??
    asOnlyKey(wanted, node, schema) ??
    asSwitch(wanted, node, schema) ??
    byExample(wanted, node, examples) ??
    byDashes(wanted, node, items) ??
    typeHelp(wanted, node, is_entry, key, items)
  );
}

/** @param is_entry whether a mapping with the key `stage` is wanted. */
function typeHelp(
  wanted: readonly string[],
  node: Node,
  is_entry: boolean,
  key: string,
  items?: JsonSchema,
): string | undefined {
  const value = node.kind === 'scalar' ? node.value : undefined;
  if (typeof value === 'string') return textHelp(wanted, value, is_entry, key, items);
  if (wanted.includes('array') && typeof value === 'number') return `write a list: [${value}]`;
  const is_plain = typeof value === 'number' || typeof value === 'boolean';
  return wanted.includes('string') && is_plain ? `write "${value}"` : undefined;
}

function textHelp(
  wanted: readonly string[],
  value: string,
  is_entry: boolean,
  key: string,
  items?: JsonSchema,
): string | undefined {
  const number = wanted.some((type) => type === 'number' || type === 'integer') ? numberMeant(value, key) : undefined;
  if (number !== undefined) return `write ${number}`;
  if (wanted.includes('boolean') && /^(yes|on|true)$/i.test(value)) return 'write true';
  if (wanted.includes('boolean') && /^(no|off|false)$/i.test(value)) return 'write false';
  if (wanted.includes('object') && /^[\w-]+:\S/.test(value)) return 'put a space after the colon';
  if (wanted.includes('object') && is_entry && /^[\w-]+$/.test(value)) return `write { stage: ${value} }`;
  if (!wanted.includes('array') || value === '') return undefined;
  return looksSecret(value) ? 'write a list' : `write a list: ${flow(listMeant(value, items))}`;
}

/** The items of a list that was written as one text: between commas, or between spaces where no item can hold one. */
export function listMeant(text: string, items: JsonSchema = {}): string[] {
  const { pattern } = items as { pattern?: string };
  const words = text.split(/[\s,]+/).filter((word) => word !== '');
  const fits = (word: string) => new RegExp(pattern ?? '').test(word);
  return pattern !== undefined && !fits(text) && words.every(fits) ? words : text.split(/,\s*/);
}

/** A mapping that needs one key only, made of the text that stands in its place. */
function asOnlyKey(wanted: readonly string[], node: Node, schema: JsonSchema = {}): string | undefined {
  const { required = [], anyOf = [] } = schema as Readonly<Record<string, readonly never[]>>;
  const text = node.kind === 'scalar' ? node.value : undefined;
  // A secret in a variable, or in a file.
  const owed = [...required, ...anyOf.map((branch: { required?: readonly string[] }) => branch.required?.[0])];
  const [key = ''] = owed;
  const is_only = owed.length === 1 || owed.join() === secretKeys(key).join();
  if (!wanted.includes('object') || !is_only) return undefined;
  const is_name = typeof text === 'string' && /^[\w-]+$/.test(text) && !looksSecret(text);
  return is_name ? `write { ${key}: ${text} }` : undefined;
}

/** A mapping with a switch that stands in its place: `{ mode: off }` for `off`, and for `false`. */
function asSwitch(wanted: readonly string[], node: Node, schema: JsonSchema = {}): string | undefined {
  if (!wanted.includes('object') || node.kind !== 'scalar') return undefined;
  const word = node.value === false ? 'off' : node.value;
  const properties = Object.entries((schema.properties ?? {}) as Readonly<Record<string, JsonSchema>>);
  const found = properties.find(([, { enum: words }]) => (words as readonly unknown[] | undefined)?.includes(word));
  return found === undefined ? undefined : `write { ${found[0]}: ${word} }`;
}

/** For a mapping of names where a list of items with names belongs, and for a mapping whose keys have dashes. */
function byDashes(wanted: readonly string[], node: Node, items: JsonSchema = {}): string | undefined {
  if (wanted.includes('object') && node.kind === 'list') {
    const is_split = node.items.length > 0 && node.items.every((item) => item.kind === 'map');
    return is_split ? 'remove the dashes: they begin the items of a list' : undefined;
  }
  const [name] = (items as { required?: readonly string[] }).required ?? [];
  if (!wanted.includes('array') || node.kind !== 'map' || name === undefined) return undefined;
  const is_one = node.entries.some(({ key }) => key === name);
  return is_one ? `begin the item with a dash: \`- ${name}:\`` : `begin each item with a dash: \`- ${name}: ...\``;
}

/** For a list or mapping that stands where the other belongs, or a number where a mapping does. */
function byExample(wanted: readonly string[], node: Node, examples: readonly unknown[] = []): string | undefined {
  const is_number = node.kind === 'scalar' && typeof node.value === 'number';
  if (!(wanted.includes('array') && node.kind === 'map') && !(wanted.includes('object') && is_number)) return undefined;
  const example = examples.findLast((one) => Array.isArray(one) === wanted.includes('array'));
  return example === undefined ? undefined : `write ${flow(example)}, for example`;
}
