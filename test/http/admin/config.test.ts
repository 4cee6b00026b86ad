import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { before, describe, test } from 'node:test';
import { storableJson } from '../../../engine/base/kit/storable.ts';
import type { KeptFinding, KeptRule } from '../../../engine/domain/audit/config-loads.ts';
import { openLoadRecord } from '../../../engine/edge/gateway/loads.ts';
import { commandsOf } from '../../cli/at-gateway.ts';
import { quietLog } from '../../support/store.ts';
import { adminBench, pick } from './support.ts';

const PATH = '/admin/api/config';
const FIRST = '0123456789ab';
const SECOND = 'ba9876543210';
const BROKEN = 'cccccccccccc';
const HASH = 'feedfeedfeed';

const bench = adminBench();

const shadow: KeptRule = {
  kind: 'routing',
  name: 'long',
  mode: 'shadow',
  text: 'the request has more than 1000 tokens',
  effect: 'goes to spare',
  file: 'gateway.yaml',
  line: 2,
  first_line: 2,
  last_line: 3,
};

const yaml = (name: string) => `rules:\n  - name: ${name}\n    mode: shadow\n`;

/** A configuration of one file and one rule. */
function kept(version: string, name: string, rules: readonly KeptRule[] | null = [{ ...shadow, name }]) {
  const files = [{ name: 'gateway.yaml', text: yaml(name), digest: null }];
  const where = { file: 'gateway.yaml', line: 1, found: null, expected: null, help: null };
  const finding: KeptFinding = { code: 'C4011', severity: 'error', message: 'a variable is missing', ...where };
  const findings = rules === null ? [finding] : [];
  return { version, files, findings, rules };
}

const ask = (status: number, who: string, path = '') => bench.get(who, PATH + path, status);

before(async () => {
  const { database, clock } = bench;
  const record = openLoadRecord({ database, clock, log: quietLog, every: () => () => {} });
  const in_force = { config_hash: HASH, needs_restart: [] };
  record.note({ cause: 'start', kept: kept(FIRST, 'long'), changed: [], in_force });
  clock.advance(60_000);
  record.note({ cause: 'files', kept: kept(SECOND, 'longer'), changed: ['gateway.yaml'], in_force });
  clock.advance(60_000);
  record.note({ cause: 'signal', kept: kept(BROKEN, 'longest', null), changed: ['gateway.yaml'] });
  await record.flush();
});

describe('the configuration', () => {
  test("is reported with each replica's version, and with the reason of one that lags", async () => {
    const { replica, replicas, version, failing } = await ask(200, 'root');
    const name = `${hostname()} ${process.pid}`;
    assert.deepEqual([replica, version], [name, SECOND]);
    const times = ['2026-03-10T12:01:00.000Z', '2026-03-10T12:02:00.000Z'];
    const shown = pick(replicas, 'name', 'version', 'cause', 'loaded_at', 'failing_since');
    assert.deepEqual(shown, [[name, SECOND, 'files', ...times]]);
    assert.deepEqual([failing.version, failing.cause, failing.failed], [BROKEN, 'signal', true]);
    assert.equal(failing.findings[0].code, 'C4011');
  });

  test('has its loads in pages, the newest first', async () => {
    const page = await ask(200, 'root', '/loads?limit=2');
    assert.deepEqual(pick(page.loads, 'version', 'failed'), [
      [BROKEN, true],
      [SECOND, false],
    ]);
    const rest = await ask(200, 'root', `/loads?before=${page.next}`);
    assert.deepEqual([rest.loads[0].version, rest.loads.length, rest.next], [FIRST, 1, null]);
  });

  test('finds versions by name, and by the hash in metrics', async () => {
    const first = await ask(200, 'root', `/versions/${FIRST}`);
    assert.deepEqual([first.files[0].text, first.rules[0].name, first.load.cause], [yaml('long'), 'long', 'start']);
    assert.equal((await ask(200, 'root', `/versions/${HASH}`)).version, SECOND);
    assert.equal((await ask(200, 'root', `/versions/${BROKEN}`)).rules, null);
    for (const other of ['aaaaaaaaaaaa', 'no-version', "'; drop table config_loads; --"]) {
      const { error } = await ask(404, 'root', `/versions/${encodeURIComponent(other)}`);
      assert.match(error.message, /Unknown version/);
    }
    await ask(404, 'root', `/diff?from=${FIRST}&to=aaaaaaaaaaaa`);
    await ask(400, 'root', `/diff?from=${FIRST}`);
  });

  test('counts the would-be decisions of shadow rules, as audit records are written', async () => {
    const { database, clock } = bench;
    const append = async (hours_ago: number, more: object, again = false) => {
      const at_ms = clock.now() - hours_ago * 3_600_000;
      const record = { request_id: `r${hours_ago}`, upstream: 'main', ...more };
      const text = `[${storableJson({ at_ms, request_id: `r${hours_ago}`, record })}]`;
      await database.query('test_append', 'select audit_append($1, $2)', [text, again]);
    };
    const matched = { shadow: ['routing:longer', 'spend:daily'] };
    await append(400, matched);
    await append(30, matched);
    await append(2, { ...matched, upstream: null });
    await append(2, { ...matched, upstream: null }, true);
    await append(1, matched);
    await append(3, {});
    await append(4, { shadow: 'no list' });
    const { rules, since, version } = await ask(200, 'root', '/shadow-rules');
    assert.deepEqual([version, since], [SECOND, '2026-03-03T12:02:00.000Z']);
    const [rule, ...others] = rules;
    assert.deepEqual(others, []);
    assert.deepEqual([rule.recorded_as, rule.requests, rule.last_request_id], ['routing:longer', 3, 'r1']);
    assert.equal(rule.last_at, '2026-03-10T11:02:00.000Z');
    assert.deepEqual(rule.upstreams, [
      { upstream: 'main', requests: 2 },
      { upstream: null, requests: 1 },
    ]);
    assert.match(rule.patch, /^-\s+mode: shadow$/m);
  });

  test('is reported by commands at a gateway: loaded, active, difference', async () => {
    const root = commandsOf('root', bench.url);
    const { stdout, stderr } = await root('config', 'loads', '-n', '2');
    const [, failed, running, ...others] = stdout.trimEnd().split('\n');
    assert.deepEqual(others, []);
    assert.match(failed!, new RegExp(`failed +signal +${BROKEN} +1 error +gateway\\.yaml`));
    assert.match(running!, new RegExp(`in force +files changed +${SECOND}`));
    assert.match(stderr.replace(/\s+/g, ' '), new RegExp(`runs version ${SECOND}; its reloads fail since 2026-03-10`));
    const differs = (await root('config', 'diff', FIRST)).stdout;
    assert.match(differs, /^Rules\n- long goes to spare, when [^\n]+\n[^+]*\+ longer goes to spare/);
    assert.match(differs, /\ngateway\.yaml: changed\n@@ -1 \+1 @@\n rules:\n- {2}- name: long\n\+ {2}- name: longer\n/);
    assert.match((await root('config', 'diff', 'aaaaaaaaaaaa')).stderr, /unknown version/i);
  });
});
