import type { JsonSchema } from '../../contract/json-schema.ts';
import { flow } from '../../source/value-meant.ts';
import { isEntries } from './configuration-keys.ts';

/** Lines of YAML: a key where it stands, with a value as somebody might write it. */
export function keyExample(path: string, schema: JsonSchema): string[] {
  const steps = path.split('.');
  const value = steps.reduceRight<unknown>(
    (inner, step, depth) => {
      const is_last = depth === steps.length - 1;
      const name = step.replace('[]', '').replace('*', NAME);
      return { [name]: step.endsWith('[]') && !is_last ? [inner] : inner };
    },
    sample(schema, path),
  );
  return blockLines(value);
}

const NAME = 'name-of-yours';
const CONDITION = { '===': [{ var: 'request.model' }, 'coder-1'] };

const isEmpty = (value: unknown): boolean =>
  value === undefined || (typeof value === 'object' && value !== null && Object.keys(value).length === 0);

/** A value that the schema allows, or nearly. */
function sample(schema: JsonSchema, path: string): unknown {
  const { examples, enum: values, anyOf, items } = schema;
  if (Array.isArray(examples) && examples.length > 0) return examples[0];
  if (!isEmpty(schema.default)) return schema.default;
  if (Array.isArray(values)) return values[0];
  if (schema['x-rule'] !== undefined) return CONDITION;
  if (typeof items === 'object' && items !== null && !Array.isArray(items)) {
    return [isEntries(path, items as JsonSchema) ? { stage: 'audit' } : sample(items as JsonSchema, `${path}[]`)];
  }
  const branches = (anyOf ?? []) as readonly JsonSchema[];
  const typed = branches.find((branch) => branch.properties !== undefined || branch.type !== undefined);
  if (schema.properties === undefined && schema.type === undefined && typed !== undefined) return sample(typed, path);
  return schema.type === 'object' || schema.properties !== undefined
    ? sampleMapping(schema, path)
    : sampleScalar(schema);
}

/** What must be there, else the first key. */
function sampleMapping(schema: JsonSchema, path: string): unknown {
  const properties = (schema.properties ?? {}) as Record<string, JsonSchema>;
  const [choice] = (schema.anyOf ?? []) as readonly JsonSchema[];
  const required = [schema.required, choice?.required].flatMap(
    (names) => (names as readonly string[] | undefined) ?? [],
  );
  const names = required.length > 0 ? required : Object.keys(properties).slice(0, 1);
  const present = names.filter((name) => properties[name] !== undefined);
  if (present.length > 0) {
    return Object.fromEntries(present.map((name) => [name, sample(properties[name]!, `${path}.${name}`)]));
  }
  const others = schema.additionalProperties;
  return typeof others === 'object' && others !== null ? { [NAME]: sample(others as JsonSchema, `${path}.*`) } : {};
}

function sampleScalar(schema: JsonSchema): unknown {
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === 'boolean') return true;
  if (type === 'integer' || type === 'number') return Math.max(Number(schema.minimum ?? 0), 1);
  return /such as ([^\s,]+)/.exec(String(schema['x-expected'] ?? ''))?.[1] ?? '...';
}

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;

/** Mappings are short enough for one line where all of it are scalars and short lists. */
const IN_LINE = 56;

function blockLines(value: unknown, indent = ''): string[] {
  if (!isMapping(value)) return [`${indent}${flow(value)}`];
  return Object.entries(value).flatMap(([key, inner]) => {
    const name = /^[\w-]+$/.test(key) ? key : JSON.stringify(key);
    const is_list = Array.isArray(inner) && inner.some((item) => isMapping(item));
    const in_line = `${indent}${name}: ${flow(inner).replaceAll(/(?<!")===:/g, '"===":')}`;
    if ((!isMapping(inner) && !is_list) || (indent !== '' && in_line.length <= IN_LINE)) return [in_line];
    if (isMapping(inner)) return [`${indent}${name}:`, ...blockLines(inner, `${indent}  `)];
    const items = (inner as readonly unknown[]).flatMap((item) => {
      const [first = '', ...rest] = blockLines(item, `${indent}    `);
      return [`${indent}  - ${first.trimStart()}`, ...rest];
    });
    return [`${indent}${name}:`, ...items];
  });
}
