import type { JsonSchema } from '../../contract/json-schema.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { type ConfigurationKey, configurationKeys, findKeys } from './configuration-keys.ts';
import type { Explanation } from './explain-configuration.ts';
import { labelled } from './explain-stage.ts';
import { plainDefault, schemaType } from './format-schema.ts';
import { keyExample } from './key-example.ts';

/** So many places of one name are told in full. */
const IN_FULL = 1;
/** Most keys below a key that are listed. */
const BELOW_MAX = 40;

/** A key of configuration files, wherever it stands; `undefined` where no file has one of this name. */
export function explainKey(name: string): Explanation | undefined {
  const found = findKeys(name);
  if (found.length === 0) return undefined;
  return {
    lines: (width) => (found.length > IN_FULL ? describePlaces(name, found, width) : describeKey(found[0]!, width)),
    data: found.map((key) => ({
      key: key.path,
      file: key.file,
      type: schemaType(key.schema),
      required: key.required,
      default: key.schema.default ?? null,
      values: key.schema.enum ?? null,
      description: key.schema.description ?? null,
      examples: key.schema.examples ?? [],
    })),
  };
}

/** One key, with an example of it where it stands. */
function describeKey(key: ConfigurationKey, line_width: number): string[] {
  const { file, path, schema, required } = key;
  const inside = keysBelow(key);
  const value = plainDefault(schema);
  return [
    `key ${path} of ${file}`,
    '',
    ...wrapText(descriptionOf(schema), line_width),
    '',
    ...labelled('is', schemaType(schema), line_width),
    ...labelled('default', required ? 'none: it is required' : (value ?? 'none: it may be left out'), line_width),
    ...(typeof schema['x-expected'] === 'string' ? labelled('written', schema['x-expected'], line_width) : []),
    ...(inside.length === 0 ? [] : labelled('keys below', inside.join(', '), line_width)),
    '',
    'Example',
    '',
    ...keyExample(path, schema).map((line) => `  ${line}`),
  ];
}

const descriptionOf = ({ description }: JsonSchema): string => String(description ?? 'A name of your own.');

function keysBelow({ file, path }: ConfigurationKey): string[] {
  const inside = configurationKeys().filter((other) => other.file === file && other.path.startsWith(path));
  const names = inside.flatMap((other) => {
    const rest = /^(?:\[\])?\.([^.]+)$/.exec(other.path.slice(path.length))?.[1];
    return rest === undefined ? [] : [rest === '*' ? 'names of yours' : rest.replace('[]', '')];
  });
  return names.length > BELOW_MAX ? [...names.slice(0, BELOW_MAX), `${names.length - BELOW_MAX} more`] : names;
}

/** Type and description: places where both are the same are told together. */
function whatItIs({ schema, required }: ConfigurationKey): string {
  const value = plainDefault(schema);
  const rest = required ? ', required' : value === undefined ? '' : `, ${value} where absent`;
  return `${schemaType(schema)}${rest}\n${descriptionOf(schema)}`;
}

/** The same name in several places: each with what it is there. */
function describePlaces(name: string, found: readonly ConfigurationKey[], line_width: number): string[] {
  return [
    `key ${name}, in ${found.length} places`,
    ...[...Map.groupBy(found, whatItIs)].flatMap(([what, alike]) => [
      '',
      ...alike.flatMap(({ file, path }) => wrapText(`${path} of ${file}`, line_width, '  ', '    ')),
      ...what.split('\n').flatMap((line) => wrapText(line, line_width, '    ')),
    ]),
    '',
    ...wrapText(`With an example: appscli explain key ${found[0]!.path}`, line_width),
  ];
}
