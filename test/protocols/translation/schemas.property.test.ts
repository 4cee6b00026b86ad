/** Schemas of tools and responses of any kind: each API accepts their translation, and the meaning is kept. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { DEFINITIONS } from '../../../engine/domain/protocols/definitions.ts';
import type { Json } from '../../../engine/domain/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { createStrictSchemas, writeSchema } from '../../../engine/domain/protocols/translation/tool-schemas.ts';
import { checkEnforcedSchema, checkToolSchema } from '../../support/model-provider/model-provider-checks.ts';
import { times } from '../../support/times.ts';

const apiOf = (protocol: Protocol) => (protocol === 'messages' ? 'messages' : 'functions');

const KEYS = ['a', 'b', 'c d', '__proto__', '$x'];
const keys = fc.constantFrom(...KEYS);
const scalars = fc.constantFrom<unknown>('x', 'y', 1, 2.5, true, null);
const REFERENCES = '#/$defs/a #/$defs/b #/definitions/a # #/properties/a #/$defs/none https://x.test'.split(' ');

/** Valid JSON Schema; with keywords that are rare for language models, too. */
const schemas: fc.Arbitrary<Record<string, unknown>> = fc.letrec<{ schema: Record<string, unknown> }>((tie) => {
  const below = tie('schema');
  const map = fc.dictionary(keys, below, { maxKeys: 3, noNullPrototype: true });
  const keywords = {
    type: fc.oneof(
      fc.constantFrom('object', 'array', 'string', 'number', 'integer', 'boolean', 'null'),
      fc.uniqueArray(fc.constantFrom('object', 'array', 'string', 'null'), { minLength: 1, maxLength: 3 }),
    ),
    properties: map,
    required: fc.uniqueArray(keys, { maxLength: 3 }),
    additionalProperties: fc.oneof(fc.boolean(), below),
    patternProperties: fc.dictionary(fc.constantFrom('^a', 'b$'), below, { maxKeys: 1, noNullPrototype: true }),
    items: below,
    prefixItems: fc.array(below, { minLength: 1, maxLength: 2 }),
    anyOf: fc.array(below, { minLength: 1, maxLength: 3 }),
    oneOf: fc.array(below, { minLength: 1, maxLength: 2 }),
    allOf: fc.array(below, { minLength: 1, maxLength: 2 }),
    not: below,
    enum: fc.uniqueArray(scalars, { minLength: 1, maxLength: 3 }),
    const: scalars,
    minimum: fc.integer({ min: -2, max: 2 }),
    multipleOf: fc.constantFrom(1, 2),
    minLength: fc.nat(2),
    maxItems: fc.nat(2),
    minItems: fc.nat(2),
    uniqueItems: fc.boolean(),
    pattern: fc.constantFrom('^x', 'y'),
    format: fc.constantFrom('date', 'uri', 'uri-reference'),
    description: fc.constantFrom('Words', ''),
    title: fc.constant('Title'),
    default: scalars,
    $ref: fc.constantFrom(...REFERENCES.slice(0, 5)),
    $defs: map,
  };
  return {
    schema: fc.oneof(
      { maxDepth: 4, depthSize: 'small' },
      fc.constantFrom<Record<string, unknown>[]>({ type: 'string' }, { type: 'integer' }, { type: 'boolean' }, {}),
      fc
        .record(keywords, { requiredKeys: [], noNullPrototype: true })
        .chain((all) =>
          fc
            .subarray(Object.keys(all), { maxLength: 5 })
            .map((kept) => Object.fromEntries(Object.entries(all).filter(([key]) => kept.includes(key)))),
        ),
      map.map((properties) => ({ type: 'object', properties, required: Object.keys(properties) })),
      map.map((properties) => ({ type: 'object', properties, additionalProperties: false })),
    ),
  };
}).schema;

const definitions = fc.record(
  {
    $defs: fc.dictionary(fc.constantFrom('a', 'b'), schemas, { noNullPrototype: true }),
    definitions: fc.dictionary(fc.constantFrom('a'), schemas, { noNullPrototype: true }),
  },
  { requiredKeys: [], noNullPrototype: true },
);
const roots = fc.tuple(schemas, definitions).map(([schema, more]) => ({ ...schema, ...more }));

/** Any value in place of a keyword of JSON Schema. */
const hostile: fc.Arbitrary<Record<string, unknown>> = fc.letrec<{ value: unknown; schema: Record<string, unknown> }>(
  (tie) => ({
    value: fc.oneof(
      { maxDepth: 5, depthSize: 'small' },
      fc.constantFrom<unknown>(
        ...[null, true, false, 0, -1, 1.5, '', 'string', 'STRING', 'any', '(', [], {}],
        ...REFERENCES,
      ),
      fc.array(tie('value'), { maxLength: 3 }),
      tie('schema'),
    ),
    schema: fc.dictionary(
      fc.constantFrom(
        ...['type', 'properties', 'required', 'items', 'additionalProperties', 'anyOf', 'oneOf', 'allOf', 'not'],
        ...[
          'enum',
          'const',
          '$ref',
          '$defs',
          'definitions',
          'prefixItems',
          'additionalItems',
          'minimum',
          'exclusiveMinimum',
        ],
        ...['minItems', 'pattern', 'format', 'description', 'title', '$schema', 'default', '__proto__', 'a'],
      ),
      tie('value'),
      { maxKeys: 5, noNullPrototype: true },
    ),
  }),
).schema;

function tool(parameters: Json, to: Protocol, strict?: boolean) {
  const notes = new Notes();
  const set = createStrictSchemas(DEFINITIONS[to].accepted, notes);
  return { ...set.tool({ name: 't', parameters, ...(strict && { strict }) }), notes: notes.names };
}

const answer = (schema: Json, to: Protocol, notes = new Notes()) =>
  createStrictSchemas(DEFINITIONS[to].accepted, notes).answer({ kind: 'json_schema', schema });

const lenient = { strict: false, validateFormats: false, validateSchema: false, logger: false } as const;
const ajv = new Ajv2020({ ...lenient, addUsedSchema: false });

/** The validator of a value; `undefined` for a schema that no validator reads. */
function validator(schema: Json): ((value: unknown) => boolean | undefined) | undefined {
  try {
    const validate = ajv.compile({ ...schema });
    return (value) => {
      try {
        return validate(value) as boolean;
      } catch {
        // A schema that refers to itself and nothing else.
        return undefined;
      }
    };
  } catch {
    return undefined;
  }
}

const values: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    scalars,
    fc.array(tie('value'), { maxLength: 2 }),
    fc.dictionary(keys, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value;
const objects = fc.dictionary(keys, values, { maxKeys: 4, noNullPrototype: true });

const TEXT = { type: 'string' };
const closed = (properties: Json): Json => {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false };
};

/** Schemas that every API can enforce. */
const ENFORCED: readonly Json[] = [
  closed({ path: TEXT }),
  {
    type: 'object',
    properties: { lines: { type: 'array', items: { type: 'integer', minimum: 1 } } },
    required: ['lines'],
  },
];

/** Schemas of MCP servers and generators; each had requests rejected as a whole by one of the three APIs. */
const REJECTED: readonly Json[] = [
  ...[{ type: 'object' }, { properties: { a: TEXT } }, { type: 'string' }],
  { type: ['object', 'null'], properties: null, required: null },
  { anyOf: [closed({ a: TEXT }), closed({ b: TEXT })] },
  { oneOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/none' }], $defs: { a: closed({ a: TEXT }) } },
  { type: 'object', allOf: [closed({ a: TEXT }), { properties: { b: TEXT }, required: ['b'] }], enum: [{}] },
  { $schema: 'http://json-schema.org/draft-07/schema#', ...closed({ a: {}, b: true }) },
  // As in draft 4 and in draft 3.
  { type: 'object', properties: { n: { type: 'number', minimum: 0, exclusiveMinimum: true } } },
  { properties: { a: { type: 'string', required: true }, range: { type: 'array', items: [TEXT, TEXT] } } },
  { properties: { a: { enum: ['x', 'x', null] }, b: { type: 'string', enum: [] } }, required: ['a', 'a'] },
  {
    type: 'OBJECT',
    properties: { a: { type: 'STRING' }, b: { type: 'int' }, c: { type: 'list' }, d: 'number', e: null },
  },
  { type: 'object', properties: { a: { type: 'string', pattern: '(?<!x', description: null, enum: null } } },
  { ...closed({ 'filter[id]': TEXT, $top: { type: 'integer' }, ['x'.repeat(65)]: TEXT }), required: ['filter[id]'] },
  closed({
    a: { type: 'string', minLength: 1, maxLength: 9, pattern: '^a', format: 'uri-reference', default: 'a' },
    b: { type: 'integer', minimum: 0, exclusiveMaximum: 9, multipleOf: 3 },
    c: { type: 'array', items: TEXT, minItems: 2, maxItems: 5, uniqueItems: true },
    d: { type: 'object', additionalProperties: TEXT, minProperties: 1 },
  }),
  {
    ...closed({ root: { $ref: '#/$defs/node' } }),
    $defs: { node: closed({ children: { items: { $ref: '#/$defs/node' } } }) },
  },
];

test('of more strict tools than the Messages API compiles, the first twenty stay strict', () => {
  const notes = new Notes();
  const set = createStrictSchemas(DEFINITIONS.messages.accepted, notes);
  const tools = Array.from({ length: 22 }, () =>
    set.tool({ name: 't', parameters: closed({ a: TEXT }), strict: true }),
  );
  assert.equal(tools.filter(({ strict }) => strict).length, 20);
  assert.deepEqual(notes.names, ['strict_schema']);
});

for (const to of PROTOCOLS) {
  describe(`at ${to} upstreams`, () => {
    for (const [which, any] of [
      ['right', roots],
      ['hostile', hostile],
    ] as const) {
      test(`a ${which} schema becomes one that the API accepts: of a tool, strict or not, and of a response`, () => {
        let enforced = 0;
        fc.assert(
          fc.property(any, (schema) => {
            checkToolSchema(tool(schema, to).schema, 'tool', apiOf(to));
            const strict = tool(schema, to, true);
            checkToolSchema(strict.schema, 'tool', apiOf(to));
            if (strict.strict) checkEnforcedSchema(strict.schema, 'strict', apiOf(to));
            const response = answer(schema, to);
            if (response === undefined) return;
            checkEnforcedSchema(response, 'answer', apiOf(to));
            enforced++;
          }),
          { numRuns: times(25) + REJECTED.length, examples: [...ENFORCED, ...REJECTED].map((schema) => [schema]) },
        );
        assert.ok(enforced >= ENFORCED.length, `only ${enforced} schemas are enforceable`);
      });
    }

    test('rewriting is idempotent', () => {
      fc.assert(
        fc.property(hostile, (schema) => {
          const once = writeSchema(schema, DEFINITIONS[to].accepted, new Notes());
          const notes = new Notes();
          assert.deepEqual(writeSchema(once, DEFINITIONS[to].accepted, notes), once);
          assert.deepEqual(notes.names, []);
        }),
        { numRuns: times(20) },
      );
    });

    test('a non-strict tool accepts the same calls, and only those where nothing was noted', () => {
      fc.assert(
        fc.property(roots, fc.array(objects, { minLength: 1, maxLength: 10 }), (schema, calls) => {
          const { schema: written, notes } = tool(schema, to);
          const [before, after] = [validator({ allOf: [schema], ...pick(schema) }), validator(written)];
          if (before === undefined || after === undefined || notes.includes('schema_alternatives')) return;
          for (const call of calls) {
            if (before(call))
              assert.notEqual(after(call), false, `${JSON.stringify(call)} is refused by ${JSON.stringify(written)}`);
            if (notes.length === 0 && !Object.hasOwn(schema, '$ref')) assert.equal(after(call), before(call));
          }
        }),
        { numRuns: times(20) },
      );
    });

    test('the output satisfies the requested schema if no constraint was only described', () => {
      fc.assert(
        fc.property(roots, fc.array(values, { minLength: 1, maxLength: 20 }), (schema, said) => {
          const notes = new Notes();
          const written = answer(schema, to, notes);
          if (written === undefined || notes.names.includes('schema_constraints')) return;
          const [before, after] = [validator(schema), validator(written)];
          if (before === undefined || after === undefined) return;
          for (const value of said) {
            // Of alternatives, exactly one or at least one may be meant.
            if (after(value) && !JSON.stringify(schema).includes('oneOf'))
              assert.notEqual(before(value), false, JSON.stringify({ value, written }));
          }
        }),
        { numRuns: times(25) },
      );
    });
  });
}

/** Definitions stay at the root, where references look for them. */
function pick({ $defs, definitions: more }: Json): Json {
  return { ...($defs !== undefined && { $defs }), ...(more !== undefined && { definitions: more }) };
}

test('a very deep, very wide or circular schema is fast', () => {
  let deep: Json = { type: 'string' };
  for (let level = 0; level < 900; level++) deep = { type: 'object', properties: { a: deep } };
  const many = (length: number, of: (next: string) => Json) =>
    Object.fromEntries(Array.from({ length }, (_, i) => [`d${i}`, of(`#/$defs/d${i + 1}`)]));
  const object = (properties: Json) => ({ type: 'object', properties });
  const wide = object(many(40_000, () => ({})));
  const chain = many(9000, ($ref) => object({ n: { $ref } }));
  // Each level is twice the one below.
  const doubling = many(60, ($ref) => object({ a: { $ref, description: 'x' }, b: { $ref, description: 'x' } }));
  const circle = { anyOf: Array.from({ length: 50 }, () => ({ $ref: '#' })), ...wide };
  const again = { allOf: [{ $ref: '#' }, { $ref: '#' }], type: 'object' };
  const from_first = [chain, doubling].map(($defs) => ({ $ref: '#/$defs/d0', $defs }));
  for (const schema of [deep, wide, ...from_first, circle, again]) {
    for (const to of PROTOCOLS) {
      tool(schema, to);
      tool(schema, to, true);
      answer(schema, to);
    }
  }
});
