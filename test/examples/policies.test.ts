/** examples/policies: the command of a README finds the users it is about. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { cli } from '../cli/support.ts';
import { ask } from '../e2e/support/client.ts';
import { bootGateway, makeToken } from '../support/gateway.ts';
import { answerJson, message, startUpstream } from '../support/model-provider/scripted-upstream.ts';
import { until } from '../support/until.ts';

const POLICIES = join(import.meta.dirname, '../../examples/policies');

/** The command of a policy's README that asks the audit log. */
const commandOf = (name: string) =>
  /\.bin\/appscli (audit tail .*)/.exec(readFileSync(join(POLICIES, name, 'README.md'), 'utf8'))![1]!.split(' ');

async function bootWith(t: TestContext, change: (rule: { mode?: string }) => void) {
  const upstream = await startUpstream();
  t.after(() => upstream.close());
  upstream.script = answerJson(message());
  const { access } = parse(readFileSync(join(POLICIES, 'model-refused-for-project', 'gateway.yaml'), 'utf8'));
  for (const rule of access.rules) {
    rule.models = ['coder-1'];
    change(rule);
  }
  const gateway = await bootGateway({ upstream_url: upstream.url, config: { access } });
  t.after(() => gateway.close());
  return gateway;
}

test('the command finds the callers a rule in shadow mode would reject, and then those it rejects', async (t) => {
  const command = commandOf('model-refused-for-project');
  for (const [mode, refused, status] of [
    ['shadow', 0, 200],
    ['enforce', 1, 403],
  ] as const) {
    const gateway = await bootWith(t, (rule) => {
      rule.mode = mode;
    });
    const hit = await makeToken(gateway.database, { user: 'ann@example.com', project: 'payments', name: 'ann' });
    const other = await makeToken(gateway.database, { user: 'ben@example.com', project: 'search', name: 'ben' });
    assert.equal((await ask(gateway.url, hit)).status, status);
    assert.equal((await ask(gateway.url, other)).status, 200);
    const table = await until('the record is stored', async () => {
      const { stdout } = await cli([...command, '--config', gateway.config_file], { env: gateway.env });
      return stdout === '' ? undefined : stdout;
    });
    const [, ...rows] = table.trimEnd().split('\n');
    const found = rows.map((row) => row.split(/ {2,}/).slice(0, 3));
    assert.deepEqual(found, [['ann@example.com', '1', String(refused)]]);
  }
});
