/** Which records fit a filter: the database and the program must say the same, as one lists and the other follows. */
import assert from 'node:assert/strict';
import { before, it } from 'node:test';
import fc from 'fast-check';
import type { AuditRecord } from '../../engine/base/contract/services.ts';
import {
  fitter,
  listRequestRecords,
  type RequestFilter,
  recordsAfter,
  whoSent,
} from '../../engine/domain/audit/request-records.ts';
import { useTestStore } from '../support/store.ts';

const NOW = Date.parse('2026-03-10T12:00:00Z');
const PEOPLE = ['ann@example.com', 'bob@example.com'];
const NAMES = ['few', 'large', "o'brien", 'messages/large', 'access:few', 'spend:few', '%', '', '{"a":1}'];

const name = fc.constantFrom(...NAMES);
const mark = fc.oneof(
  name,
  fc.tuple(fc.constantFrom('access', 'spend', 'routing'), name).map((two) => two.join(':')),
);
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });

const record: fc.Arbitrary<AuditRecord> = fc.record({
  user: fc.constantFrom(...PEOPLE, null),
  model: fc.constantFrom('coder-1', 'coder-2', null),
  status: fc.constantFrom(200, 403, 429, 529, null),
  error: fc.constantFrom('forbidden', 'spend_limit_exceeded', null),
  stage: fc.oneof(name, fc.constant(null)),
  pipeline: fc.constantFrom('messages', 'responses'),
  spend_rule: fc.oneof(name, fc.constant(null)),
  route_rule: fc.oneof(name, fc.constant('default')),
  refused_by: fc.oneof(
    fc.constant(undefined),
    name.map((each) => `access rule ${each}`),
    name.map((each) => `policy ${each}`),
  ),
  shadow: fc.oneof(fc.constant(undefined), fc.array(mark, { maxLength: 3 })),
});

const several = <T>(value: fc.Arbitrary<T>) => fc.array(value, { minLength: 1, maxLength: 3 });
const anyFilter: fc.Arbitrary<RequestFilter> = fc.record({
  user: maybe(fc.oneof(fc.constantFrom(...PEOPLE), several(fc.constantFrom(...PEOPLE)))),
  model: maybe(several(fc.constantFrom('coder-1', 'coder-2'))),
  error: maybe(several(fc.constantFrom('forbidden', 'spend_limit_exceeded'))),
  status: maybe(fc.constantFrom('403', '4xx', '5xx', '2xx')),
  outcome: maybe(fc.constantFrom('refused', 'failed')),
  rules: maybe(several(mark)),
  shadow: maybe(fc.oneof(fc.constant(true as const), several(mark))),
});

/** Filters that some record fits, whatever chance made of the others. */
const FITTING: readonly RequestFilter[] = [
  {},
  { user: PEOPLE[0] },
  { model: ['coder-1', 'coder-2'], error: 'forbidden', status: '4xx' },
  { outcome: 'refused', rules: ['access:few'] },
];
const KNOWN = {
  ...{ user: PEOPLE[0]!, model: 'coder-1', status: 403, error: 'forbidden', stage: null, pipeline: 'messages' },
  ...{ spend_rule: null, route_rule: 'default', refused_by: 'access rule few', shadow: undefined },
} as unknown as AuditRecord;

const { store } = useTestStore();
before(async () => {
  const records = [KNOWN, ...fc.sample(record, { numRuns: 400 })];
  const rows = records.map((each, i) => ({ at_ms: NOW - i * 60_000, request_id: `r${i}`, record: each }));
  await store.database.query('test_audit', 'select audit_append($1::jsonb, false)', [JSON.stringify(rows)]);
});

it('a filter of audit records finds exactly the matching records in the database', async () => {
  const { database } = store;
  const all = await recordsAfter(database, 0, 1000);
  let found_some = 0;
  await fc.assert(
    fc.asyncProperty(anyFilter, async (filter) => {
      const fits = all.filter((row) => fitter(filter)(row.record));
      const page = await listRequestRecords(database, filter, { limit: 500, now: NOW });
      assert.deepEqual(new Set(page!.records.map(({ id }) => id)), new Set(fits.map(({ id }) => id)));
      const senders = await whoSent(database, filter, 10);
      const sent = senders.reduce((sum, { requests }) => sum + requests, 0);
      assert.equal(sent, fits.length);
      found_some += Number(fits.length > 0);
    }),
    { numRuns: 100, examples: FITTING.map((filter) => [filter]) },
  );
  assert.ok(found_some >= FITTING.length, `only ${found_some} filters found anything`);
});
