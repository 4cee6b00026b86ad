import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { storable } from '../../engine/base/kit/storable.ts';
import { rowArray, rowCell } from '../../engine/domain/budget/ledger/batch-rows.ts';
import { anyText } from '../support/any-text.ts';
import { openTestStore, type TestStore } from '../support/store.ts';
import { times } from '../support/times.ts';

let store: TestStore;
before(async () => {
  store = await openTestStore();
  await store.database.knex.raw(
    `create type test_row as (name text, number bigint, yes boolean, other text);
     create type test_outer as (name text, inner_row test_row)`,
  );
});
after(() => store.close());

describe('rows as a parameter', () => {
  it('arrive unchanged, with any texts; unstorable values are replaced', async () => {
    const text = fc.option(fc.oneof(anyText(), fc.constantFrom('', 'NULL', '(', '",', "\\'", '\0', '\ud800', '{}')));
    const row = fc.tuple(text, fc.option(fc.maxSafeInteger()), fc.option(fc.boolean()), text);
    const check = fc.asyncProperty(fc.array(row), async (rows) => {
      const expected = rows.map((each) => each.map((cell) => (typeof cell === 'string' ? storable(cell) : cell)));
      for (const [name, text, param] of [
        ['test_rows', 'select name, number, yes, other from unnest($1::test_row[])', rowArray(rows)],
        [
          'test_inner_rows',
          'select (o.inner_row).* from unnest($1::test_outer[]) as o',
          rowArray(rows.map((each) => [each[0], rowCell(each)])),
        ],
      ] as const) {
        const read = await store.database.query<Record<string, unknown>>(name, text, [param]);
        assert.deepEqual(
          read.map((each) => Object.values(each)),
          expected,
        );
      }
    });
    await fc.assert(check, { numRuns: times(200) });
  });
});
