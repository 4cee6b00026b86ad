import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { ownDirectory } from '../../support/own-directory.ts';
import { commandBench } from '../command-bench.ts';
import { cli } from '../support.ts';

const CONFIG = `server:
  listen: 127.0.0.1:8080
  public_url: https://gateway.example.com
upstreams:
  - { name: main, base_url: "https://api.example.com", api_key_env: UPSTREAM_KEY, supports: { count_tokens: true } }
models:
  - { id: coder-1, pricing: { input: 3, output: 15 } }
token_groups:
  - { name: engineers, models: ["*"] }
routing: { default_upstream: main }
spend_limits:
  reserve: worst_case
  defaults: { user_daily_usd: 5 }
  rules:
    - { name: both, scope: [user, model], window: week, limit_usd: 3 }
    - { name: by-group, scope: user, window: month, limit_usd_by_group: { engineers: 7, research: 9 } }
    - { name: rates, scope: user, concurrency: 8, requests_per_minute: 60, tokens_per_minute: 20 }
    - { name: others, scope: user, window: day, limit_usd_by_group: { research: 9 } }
`;

const directory = ownDirectory();
let file: string;
before(async () => {
  await writeFile(join(directory, 'gateway.yaml'), CONFIG);
  file = join(directory, 'request.json');
  const messages = [{ role: 'user', content: 'Hi' }];
  await writeFile(file, JSON.stringify({ model: 'coder-1', max_tokens: 10, messages }));
});

const explain = (...arguments_: string[]) => cli(['explain', ...arguments_], { cwd: directory });

it("explain shows limits of every kind, and a request's demand on them", async () => {
  const input = ['--group', 'engineers', '--user', 'ana@example.com'];
  const { stdout } = await explain(file, ...input);
  assert.match(stdout, /^ +both +ana@example\.com \+ coder-1 +week +3 +0 +0\.\d+ +yes$/m);
  assert.match(stdout, /^ +by-group +ana@example\.com +month +7 +0 +0\.\d+ +yes$/m);
  assert.match(stdout, /^ +rates +ana@example\.com +at-once +8 +requests +0 +1 +yes$/m);
  assert.match(stdout, /^ +rates +ana@example\.com +minute +60 +requests +0 +1 +yes$/m);
  assert.match(stdout, /^ +rates +ana@example\.com +minute +20 +tokens +0 +\d+ +NO$/m);
  assert.match(
    stdout,
    /others matches: 9 USD for research per user and day, and the caller is in\s+none of these groups/,
  );
  assert.doesNotMatch(stdout, /not in force|^ +others +ana/m);
  const counted = await explain(file, ...input, '--path', '/v1/messages/count_tokens');
  assert.match(counted.stdout, /^ +rates +ana@example\.com +minute +60 +requests/m);
  assert.doesNotMatch(counted.stdout, /both|by-group|tokens +0/);
  const sentences = stdout.split('\n').filter((line) => !/ (?:FITS|yes|NO)$/.test(line));
  for (const line of sentences) assert.ok(line.length <= 80, line);
  const { stdout: all } = await explain('rules');
  assert.match(all, /rates at most 8 requests at once per user\n/);
  assert.match(all, /both at most 3 USD per user and model and week \(UTC\)\n/);
});

describe('explain with a database', () => {
  const bench = commandBench();

  it('replays the rules over a past request by its id', async () => {
    const id = await bench.request(await bench.newToken({ user: 'ann@example.com', team: 'search' }));
    const { stdout } = await bench.succeed('explain', id, '--json');
    const run = JSON.parse(stdout);
    assert.equal(run.pipeline, 'messages');
    assert.equal(run.facts['principal.email'], 'ann@example.com');
    assert.deepEqual(run.facts['principal.groups'], ['all']);
    assert.equal(run.facts['route.upstream'], 'main');
    const unknown = await bench.run('explain', '00000000-0000-4000-8000-000000000000');
    assert.equal(unknown.exit_code, 1);
    assert.match(unknown.stderr, /^appscli: no request 0000.*ids\n$/);
  });

  it("counts the ledger's spending", async () => {
    await bench.request(await bench.newToken({ user: 'bob@example.com' }));
    const config = JSON.parse(await readFile(bench.config_file, 'utf8'));
    const limited = join(directory, 'limited.yaml');
    const spend_limits = { reserve: 'worst_case', defaults: { user_daily_usd: 5 } };
    await writeFile(limited, JSON.stringify({ ...config, spend_limits }));
    const caller = ['--user', 'bob@example.com', '--group', 'all', '--config', limited];
    const { stdout, stderr } = await cli(['explain', file, ...caller, '--ledger', '--json'], { env: bench.env });
    assert.equal(stderr, '');
    const [limit] = JSON.parse(stdout).limits;
    assert.deepEqual([limit.scope, limit.key], ['user', 'bob@example.com']);
    assert.equal(limit.unit, 'usd');
    assert.ok(limit.spent > 0);
  });

  it('uses the limits set and granted at run time', async () => {
    const whose = ['--user', 'eve@example.com', '--window', 'day'];
    await bench.succeed('limits', 'set', ...whose, '--usd', '0.000001');
    const explained = async () => {
      const caller = ['--user', 'eve@example.com', '--group', 'all', '--ledger', '--json'];
      const { answer: response, limits } = JSON.parse((await bench.succeed('explain', file, ...caller)).stdout);
      return [limits[0].limit, limits[0].room, response?.error];
    };
    assert.deepEqual(await explained(), [0.000001, false, 'spend_limit_exceeded']);
    await bench.succeed('limits', 'grant', ...whose, '--usd', '3', '--expires', '1d');
    assert.deepEqual(await explained(), [3.000001, true, undefined]);
  });

  it('skips drained upstreams', async () => {
    const caller = ['--user', 'eve@example.com', '--group', 'all'];
    const explained = async (...more: string[]) =>
      JSON.parse((await bench.succeed('explain', file, ...caller, ...more, '--json')).stdout).answer?.error;
    await bench.succeed('upstreams', 'drain', 'main');
    assert.equal(await explained('--ledger'), 'upstream_unavailable');
    assert.equal(await explained(), undefined);
    await bench.succeed('upstreams', 'resume', 'main');
    assert.equal(await explained('--ledger'), undefined);
  });
});
