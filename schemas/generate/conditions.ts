import type { JsonSchema } from '../../engine/api.ts';
import { FACTS, type FactPath } from '../../engine/contract/facts.ts';
import { MEMBERS } from '../../engine/contract/own-facts.ts';
import { OPERATORS, type OperatorSpec } from '../../engine/rules/operators.ts';
import { choice, factMeaning } from './words.ts';

/** Definitions of a schema by name. */
export type Definitions = Readonly<Record<string, JsonSchema>>;

const SCALARS = ['string', 'number', 'boolean', 'null'];

/** The facts a condition may read where it is evaluated, by section or one by one; `true` stands for all. */
function visibleFacts(known: unknown): FactPath[] {
  const paths = Object.keys(FACTS) as FactPath[];
  if (!Array.isArray(known)) return paths;
  return paths.filter((path) => known.some((name) => path === name || path.startsWith(`${name}.`)));
}

const SECTIONS = [...new Set(Object.keys(FACTS).map((path) => path.split('.')[0]))];

/** Facts that only a configuration knows. */
export const HEADER_FACT = {
  pattern: '^request\\.headers\\.[a-z][a-z0-9-]*$',
  description: 'A header that gateway.yaml names under facts.headers.',
};
export const MEMBER_FACT = {
  pattern: `^(?:${Object.keys(MEMBERS).join('|').replaceAll('.', '\\.')})\\.[a-z][a-z0-9_]{0,63}$`,
  description: 'How often a tool that the upstream runs may be used, or was used, by its name.',
};
export const STAGE_FACT = {
  pattern: `^(?!(?:${SECTIONS.join('|')})\\.)[a-z][a-z0-9-]*\\.[a-z][a-z0-9_]*$`,
  description: 'What a stage of yours finds out: <stage>.<fact>.',
};

/** The path of a fact, as it is or in brackets. In one list: where there are several, editors show the meanings of all. */
export function factsSchema(name: string, known: unknown): JsonSchema {
  const paths = choice(Object.fromEntries(visibleFacts(known).map((path) => [path, factMeaning(path)])));
  const items = { $ref: `#/definitions/${name}` };
  const own = [HEADER_FACT, MEMBER_FACT, ...(Array.isArray(known) ? [] : [STAGE_FACT])];
  return { anyOf: [...paths.anyOf, ...own, { type: 'array', items, minItems: 1, maxItems: 1 }] };
}

/** The operands of an operator: `operand` for each, but `item` for what is evaluated once per item of a list. */
function operandsSchema(spec: OperatorSpec, operand: JsonSchema, item: JsonSchema): JsonSchema {
  const [min, max] = spec.operands;
  const bounds = { minItems: min, ...(Number.isFinite(max) && { maxItems: max }) };
  if (spec.iterates) return { type: 'array', items: [operand, item], ...bounds };
  // A single operand may stand without brackets.
  return min <= 1 ? { ...operand, ...bounds } : { type: 'array', items: operand, ...bounds };
}

function expressionSchema(var_schema: JsonSchema, operand: JsonSchema, item: JsonSchema): JsonSchema {
  const operators = Object.entries(OPERATORS as Record<string, OperatorSpec>).map(([name, spec]) => {
    const description = `${spec.meaning}.`;
    const schema = name === 'var' ? var_schema : operandsSchema(spec, operand, item);
    const markdown = `${description}\n\n\`\`\`yaml\nwhen: ${spec.example}\n\`\`\``;
    return [name, { description, markdownDescription: markdown, ...schema }];
  });
  const rule = { description: 'The condition of this name under `rules:`.', type: 'string' };
  return {
    type: ['object', 'array', ...SCALARS],
    items: operand,
    additionalProperties: false,
    properties: { ...Object.fromEntries(operators), rule },
    // Beside `properties` it would keep yaml-language-server from completing the first key.
    allOf: [{ minProperties: 1, maxProperties: 1 }],
  };
}

/** A condition about an item of a list: it sees nothing else. */
export function itemDefinitions(): Definitions {
  const item = { $ref: '#/definitions/item' };
  return { item: expressionSchema({ enum: ['', ['']] }, item, item) };
}

/** The definitions of conditions; `name` is the one that a `when:` refers to, `facts` what they may read. */
export function conditionDefinitions(name: string, facts: JsonSchema): Definitions {
  const operand = { $ref: `#/definitions/${name}_operand` };
  return {
    [name]: { anyOf: [{ type: 'object', ...operand }, { type: 'boolean' }] },
    [`${name}_operand`]: expressionSchema(facts, operand, { $ref: '#/definitions/item' }),
  };
}
