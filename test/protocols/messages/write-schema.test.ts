import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { writeAsked } from './scene.ts';

function written(parameters: Record<string, unknown>, strict = false) {
  const notes = new Notes();
  const tools = [{ name: 'find', parameters, ...(strict && { strict }) }];
  const [tool] = writeAsked({ tools }, { notes }).tools as Record<string, unknown>[];
  return { schema: tool!.input_schema, strict: tool!.strict, notes: notes.names };
}

const id = { type: 'object', properties: { id: { type: 'string' } }, required: ['id', 'kind'] };
const name = { type: 'object', properties: { name: { type: 'string' }, id: { type: 'integer' } }, required: ['kind'] };

describe('the schema of a tool', () => {
  test('stays as it is where the protocol takes it, alternatives of single properties included', () => {
    const properties = { a: { anyOf: [{ type: 'string' }, { type: 'null' }] } };
    const schema = { type: 'object', properties, required: ['a'], additionalProperties: false };
    assert.deepEqual(written(schema, true), { schema, strict: true, notes: [] });
    assert.deepEqual(written({ type: 'object', properties }), {
      schema: { type: 'object', properties },
      strict: undefined,
      notes: [],
    });
    assert.deepEqual(written({}), { schema: { type: 'object' }, strict: undefined, notes: [] });
  });

  for (const key of ['anyOf', 'oneOf']) {
    test(`becomes one object where ${key} says that one of several holds`, () => {
      const parameters = { type: 'object', properties: { kind: { type: 'string' } }, [key]: [id, name] };
      const { schema, strict, notes } = written(parameters, true);
      assert.deepEqual(schema, {
        type: 'object',
        properties: {
          kind: { type: 'string' },
          id: { anyOf: [{ type: 'string' }, { type: 'integer' }] },
          name: { type: 'string' },
        },
        required: ['kind'],
      });
      assert.equal(strict, undefined);
      assert.deepEqual(notes, ['schema_alternatives']);
    });
  }

  test('becomes one object that wants everything where all of several hold', () => {
    const { schema } = written({ allOf: [id, name, { $ref: '#/$defs/x' }, 7], $defs: {} });
    assert.deepEqual(schema, {
      type: 'object',
      $defs: {},
      properties: { id: { anyOf: [{ type: 'string' }, { type: 'integer' }] }, name: { type: 'string' } },
      required: ['id', 'kind'],
    });
  });

  test('with nothing to take over is an object of anything', () => {
    assert.deepEqual(written({ anyOf: 'none' }).schema, { type: 'object' });
  });
});
