import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'csv-parse/sync';
import { createToken, revokeToken } from '../../../engine/domain/identity/tokens/tokens.ts';
import { adminBench, pick } from './support.ts';

const bench = adminBench();

const CHANGES = '/admin/api/changes';
const LINES = `${CHANGES}.jsonl`;
const CSV = `${CHANGES}.csv`;

const listed = async (query: string): Promise<Record<string, unknown>[]> =>
  (await bench.get('root', `${CHANGES}?limit=1000&${query}`)).changes;
const subjects = async (query: string) => (await listed(query)).map(({ subject }) => subject);

describe('the list of changes', () => {
  test('describes each in words and filters by actor, action, target and time', async () => {
    const { id } = await createToken(bench.by, { user: 'mia@example.com', group: 'coders', name: 'laptop' });
    const other = await createToken(bench.by, { user: 'xmia@example.com', group: 'coders', name: 'laptop' });
    bench.clock.advance(3_600_000);
    await revokeToken({ ...bench.by, actor: { kind: 'person', name: 'root@example.com' } }, id);
    await bench.ask('root', 'PUT', '/admin/api/limits?user=mia@example.com&window=day', { usd: 7 });

    const [revoked, made] = (await listed('subject=Mia@Example.com')).filter(({ subject }) => subject === id);
    assert.equal(revoked!.words, 'root@example.com revoked the access token "laptop" of mia@example.com, group coders');
    assert.equal(
      made!.words,
      'root@host at the command line made the access token "laptop" of mia@example.com, group coders',
    );
    assert.deepEqual((await subjects('subject=mia@example.com')).includes(other.id), false);
    assert.deepEqual(await subjects(`subject=${other.id}`), [other.id]);
    assert.deepEqual(await subjects(`subject=${id}&action=token.revoke`), [id]);
    assert.deepEqual(await subjects(`subject=${id}&actor=ROOT@example.com`), [id]);
    assert.deepEqual(await subjects(`subject=${id}&actor=oot@example.com`), []);
    assert.deepEqual(await subjects(`subject=${id}&until=2026-03-10T13:00:00Z`), [id]);
    assert.deepEqual(pick(await listed(`subject=${id}&since=2026-03-10T13:00:00Z`), 'action'), ['token.revoke']);
  });

  test('rejects a period that ends before it begins, and an unknown action', async () => {
    const refuse = (message: RegExp, query: string) =>
      bench.refused(400, message, 'root', 'GET', `${CHANGES}?${query}`);
    await refuse(/"until" must be after "since"/, 'since=2027-01-02&until=2027-01-01');
    await refuse(/^The parameter "action" is wrong: expected token\.create, /i, 'action=token.steal');
  });
});

describe('changes as a file', () => {
  test('are CSV in which no name is a formula', async () => {
    for (const name of ['=2+5+cmd|calc', 'a "quoted", name', 'plain']) {
      await createToken(bench.by, { user: 'rosa@example.com', group: 'coders', name });
    }
    const { body } = await bench.ask('root', 'GET', `${CSV}?subject=rosa@example.com`);
    const rows: Record<string, string>[] = parse(body, { columns: true });
    const list = await listed('subject=rosa@example.com');
    const found = rows.map(({ id, at, words, after }) => ({ id: Number(id), at, words, after: JSON.parse(after!) }));
    assert.deepEqual(
      found,
      list.map(({ id, at, words, after }) => ({ id, at, words, after })),
    );
    const formula = await bench.rows<{
      id: number;
    }>(`insert into admin_changes (at, actor_kind, actor, action, subject) values (now(), 'person', '=HYPERLINK("x")', 'limit.set', '@SUM(1)')
       returning id`);
    const cells = await bench.get('root', `${CSV}?action=limit.set`);
    const all: Record<string, string>[] = parse(cells, { columns: true });
    const row = all.find(({ id }) => Number(id) === formula[0]!.id)!;
    assert.deepEqual([row.actor, row.subject], [`'=HYPERLINK("x")`, `'@SUM(1)`]);
    assert.match(row.words!, /^'=/);
  });

  test('are more than one page, in order and each once', async () => {
    await bench.rows(`insert into admin_changes (at, actor_kind, actor, action, subject)
       select now(), 'gateway', 'sign-in', 'person.suspend', 'crowd' from generate_series(1, 1203)`);
    const { body, headers } = await bench.ask('root', 'GET', `${LINES}?subject=crowd`);
    assert.equal(headers.get('content-type'), 'application/jsonl; charset=utf-8');
    assert.equal(headers.get('content-disposition'), 'attachment; filename="changes.jsonl"');
    assert.equal(headers.get('cache-control'), 'no-store');
    const lines: { id: number }[] = (body as string)
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(lines.slice(0, 1000), await listed('subject=crowd'));
    assert.equal(new Set(pick(lines, 'id')).size, 1203);
    assert.equal(await bench.get('root', `${LINES}?subject=nothing-of-that`), '');
    const head = await bench.ask('root', 'HEAD', `${CSV}?subject=crowd`);
    assert.deepEqual([head.status, head.body], [200, '']);
  });

  test('are for administrators, and need the database before they begin', async () => {
    await bench.refused(403, /admin role required/i, 'bob', 'GET', CSV);
    await bench.withoutStore(() => bench.refused(503, /./, 'root', 'GET', CSV));
  });
});

describe('rejected sign-ins', () => {
  const REFUSED = '/admin/api/refused-sign-ins';

  test('are listed page by page and as a file, within a period, to administrators', async () => {
    await bench.rows(`insert into refused_sign_ins (at, email, client, client_address, request_id, refused, detail, groups, expected)
       select timestamptz '2026-03-01T00:00:00Z' + n * interval '1 hour', 'eve@example.com', '=cmd', '192.0.2.9', 'r' || n,
         'group', 'nobody', '{guests}', '{engineering}' from generate_series(1, 5) n`);
    const query = 'user=eve@example.com&since=2026-03-01T02:00:00Z&until=2026-03-01T05:00:00Z';
    const first = await bench.get('root', `${REFUSED}?${query}&limit=2`);
    const rest = await bench.get('root', `${REFUSED}?${query}&limit=2&before=${first.next}`);
    const all = [...first.refused_sign_ins, ...rest.refused_sign_ins];
    assert.deepEqual([pick(all, 'request_id'), rest.next], [['r4', 'r3', 'r2'], null]);
    const file = await bench.ask('root', 'GET', `${REFUSED}.csv?${query}`);
    const rows: Record<string, string>[] = parse(file.body, { columns: true });
    assert.deepEqual(pick(rows, 'request_id', 'client', 'groups')[0], ['r4', "'=cmd", 'guests']);
    assert.equal(rows.length, 3);
    for (const path of [REFUSED, `${REFUSED}.csv`, `${REFUSED}.jsonl`]) {
      assert.equal((await bench.ask('bob', 'GET', path)).status, 403);
    }
  });
});
