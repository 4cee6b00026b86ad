import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ValueOf } from '../../engine/base/contract/json-schema.ts';
import { defineStage } from '../../engine/base/contract/stage.ts';

const OPTIONS = {
  type: 'object',
  additionalProperties: false,
  required: ['header'],
  properties: {
    header: { type: 'string', description: 'A header.' },
    mode: { enum: ['ask', 'refuse'], default: 'ask', description: 'What to do.' },
    seconds: { type: 'number', description: 'How long.' },
    names: { type: 'array', items: { type: 'string' }, default: [], description: 'Names.' },
  },
} as const;

test('the options of a stage have the types of its schema', () => {
  const { check } = defineStage({
    name: 'polite',
    version: 1,
    summary: 'Asks for a header.',
    options: OPTIONS,
    examples: [],
    check({ header, mode, seconds, names }) {
      const input: readonly [string, 'ask' | 'refuse', number | undefined, readonly string[]] = [
        header,
        mode,
        seconds,
        names,
      ];
      // @ts-expect-error what may be absent is not always a number
      const sure: number = seconds;
      // @ts-expect-error no such option
      const other = (options: ValueOf<typeof OPTIONS>) => options.headers;
      return [String(input), String(sure), typeof other];
    },
    create: () => ({}),
  });
  const options = { header: 'a', mode: 'ask', names: [] };
  assert.deepEqual(check?.(options, undefined as never), ['a,ask,,', 'undefined', 'function']);
});
