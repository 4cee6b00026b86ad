import { FACTS, type FactPath } from '../../engine/contract/facts.ts';
import { OPERATORS, type OperatorSpec } from '../../engine/rules/operators.ts';
import { choice, factMeaning } from './words.ts';

type Definitions = Record<string, Record<string, unknown>>;

const ref = (name: string) => ({ $ref: `#/definitions/${name}` });

const SCALARS = ['string', 'number', 'boolean', 'null'];

/** The facts a condition may read, where it is evaluated; `true` stands for all. */
function visibleFacts(sections: unknown): FactPath[] {
  const paths = Object.keys(FACTS) as FactPath[];
  if (!Array.isArray(sections)) return paths;
  return paths.filter((path) => sections.some((section) => path === section || path.startsWith(`${section}.`)));
}

function varSchema(facts: readonly FactPath[]): Record<string, unknown> {
  const path = choice(Object.fromEntries(facts.map((fact) => [fact, factMeaning(fact)])));
  return { anyOf: [...path.anyOf, { type: 'array', items: path, minItems: 1, maxItems: 1 }] };
}

/** The operands of an operator: `operand` for each, but `item` for what is evaluated once per item of a list. */
function operandsSchema(spec: OperatorSpec, operand: string, item: string): Record<string, unknown> {
  const [min, max] = spec.operands;
  const bounds = { minItems: min, ...(Number.isFinite(max) && { maxItems: max }) };
  if (spec.iterates) return { type: 'array', items: [ref(operand), ref(item)], ...bounds };
  // A single operand may stand without brackets.
  return min <= 1 ? { ...ref(operand), ...bounds } : { type: 'array', items: ref(operand), ...bounds };
}

function expressionSchema(var_schema: Record<string, unknown>, operand: string, item: string, named_rules: boolean) {
  const operators = Object.entries(OPERATORS as Record<string, OperatorSpec>).map(([name, spec]) => {
    const description = `${spec.meaning}.`;
    const schema = name === 'var' ? var_schema : operandsSchema(spec, operand, item);
    const markdown = `${description}\n\n\`\`\`yaml\nwhen: ${spec.example}\n\`\`\``;
    return [name, { description, markdownDescription: markdown, ...schema }];
  });
  const rule = { description: 'The condition of this name under `rules:`.', type: 'string' };
  return {
    type: ['object', 'array', ...SCALARS],
    items: ref(operand),
    additionalProperties: false,
    properties: { ...Object.fromEntries(operators), ...(named_rules && { rule }) },
    // Beside `properties` it would keep yaml-language-server from completing the first key.
    allOf: [{ minProperties: 1, maxProperties: 1 }],
  };
}

/** The definitions of conditions over the facts of some sections; `name` is the one that a `when:` refers to. */
export function conditionDefinitions(name: string, sections: unknown, named_rules: boolean): Definitions {
  const operand = `${name}_operand`;
  const item = `${name}_item`;
  const item_var = { enum: ['', ['']] };
  return {
    [name]: { anyOf: [{ type: 'object', ...ref(operand) }, { type: 'boolean' }] },
    [operand]: expressionSchema(varSchema(visibleFacts(sections)), operand, item, named_rules),
    [item]: expressionSchema(item_var, item, item, named_rules),
  };
}
