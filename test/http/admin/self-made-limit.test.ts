import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { type AdminBench, useAdminApi } from './support.ts';

let bench: AdminBench;
useAdminApi((opened) => {
  bench = opened;
});

const TOKENS = '/admin/api/tokens';

test('what was replaced counts as made by oneself for as long as it works', async () => {
  const make = (name: string) => bench.ask('nina', 'POST', TOKENS, { name });
  const rotate = (id: string) => bench.ask('nina', 'POST', `${TOKENS}/${id}/rotate`, { overlap_seconds: 60 });
  const refused = async (asked: ReturnType<typeof make>, message: RegExp) => {
    const { status, body } = await asked;
    assert.equal(status, 409);
    assert.match(body.error.message, message);
  };
  const ids = [];
  for (let i = 0; i < 50; i++) ids.push((await make(`n${i}`)).body.id);
  const given = await createToken(bench.by, { user: 'nina@example.com', group: 'visitors', name: 'given' });
  let [last] = ids;
  for (let i = 0; i < 50; i++) last = (await rotate(last)).body.id;
  await refused(rotate(last), /^At most 100 access tokens in force .* with replaced ones that still work, and nina@/);
  assert.equal((await rotate(given.id)).status, 201, 'what an administrator made is not counted');
  for (const id of ids.slice(1)) await bench.ask('nina', 'DELETE', `${TOKENS}/${id}`);
  await refused(make('x'), /^At most 50 .* with replaced ones that still work, and nina@/);
  bench.clock.advance(60_000);
  assert.equal((await make('x')).status, 201);
  assert.equal((await rotate(last)).status, 201);
});

test('fifty replacements at the same moment never leave more than the limit allows', async () => {
  const each = (ids: readonly string[]) =>
    Promise.all(ids.map((id) => bench.ask('olga', 'POST', `${TOKENS}/${id}/rotate`, {})));
  const made = Array.from({ length: 50 }, (_, i) => bench.ask('olga', 'POST', TOKENS, { name: `n${i}` }));
  const ids = (await Promise.all(made)).map(({ body }) => body.id);
  const rotated = (await each(ids.slice(0, 30))).map(({ body }) => body.id);
  const statuses = (await each([...rotated, ...ids.slice(30)])).map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 201).length, 20);
  assert.equal(statuses.filter((status) => status === 409).length, 30);
});
