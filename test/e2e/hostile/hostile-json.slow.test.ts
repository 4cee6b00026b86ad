/**
 * JSON made to be expensive, 31 MiB of it, in requests and in answers, against a gateway with a heap of 512 MiB: nobody
 * else waits long, and the process lives.
 */
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { cli } from '../../cli/support.ts';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import {
  answerBytes,
  EVENT_STREAM,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask, bearer, type Response, send } from '../support/client.ts';
import { type GatewayProcess, startGatewayProcess } from '../support/gateway-process.ts';
import { HOSTILE } from './hostile-json.ts';

const SIZE = 31 * 1024 * 1024;
/** What the gateway must keep, on the clock of its processor: the test's machine has other things to do. */
const PAUSE_MS_MAX = 250;
const AT_ONCE = 2;
/** `APPSCLI_TEST_HOSTILE=all` tries every shape; it takes minutes. */
const ALL = process.env.APPSCLI_TEST_HOSTILE === 'all';
const WATCH = fileURLToPath(new URL('../lifecycle/longest-pause.ts', import.meta.url));
const HEAP = `--max-old-space-size=512 --import=${WATCH}`;

let upstream: ScriptedUpstream;
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let config: Awaited<ReturnType<typeof writeConfig>>;
let gateway: GatewayProcess;
let token: string;

before(async () => {
  upstream = await startUpstream();
  database = await createTestDatabase();
  const env: NodeJS.ProcessEnv = { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: database.url };
  config = await writeConfig(
    gatewayConfig(upstream.url, { server: { listen: '127.0.0.1:0', public_url: 'http://127.0.0.1' } }),
  );
  gateway = await startGatewayProcess(config.config_file, {
    ...env,
    NODE_OPTIONS: `${env.NODE_OPTIONS ?? ''} ${HEAP}`,
  });
  const args = ['--config', config.config_file, '--user', 'dev@example.com', '--group', 'all', '--name', 'hostile'];
  const created = await cli(['tokens', 'create', ...args], { env });
  token = created.stdout.trim();
  for (let i = 0; i < 20; i++) assert.equal((await ask(gateway.url, token)).status, 200);
});
after(async () => {
  gateway?.child.kill('SIGKILL');
  await gateway?.ended;
  await database?.drop();
  await upstream?.close();
  if (config !== undefined) await rm(config.directory, { recursive: true, force: true });
});

/** The longest pause since it was last asked. */
async function longestPause(): Promise<{ ms: number; words: string }> {
  const before = gateway.output().length;
  gateway.child.kill('SIGUSR2');
  const told = /longest pause: ((\d+) ms .*)\n/;
  const [, words, ms] = await until(
    'the gateway tells its longest pause',
    () => told.exec(gateway.output().slice(before)) ?? false,
  );
  return { ms: Number(ms), words: words! };
}

async function atOnce(path: string, body: Buffer | string): Promise<readonly Response[]> {
  return Promise.all(Array.from({ length: AT_ONCE }, () => send(gateway.url, { path, headers: bearer(token), body })));
}

const shapes = (few: readonly string[]) => Object.entries(HOSTILE).filter(([name]) => ALL || few.includes(name));

describe('a hostile request', () => {
  const FEW = ['few lists, 100 levels each', 'few objects with distinct keys', 'one string of backslashes'];
  for (const [name, make] of shapes(FEW)) {
    test(`of ${name} stops the gateway for no longer than ${PAUSE_MS_MAX} ms`, async (t) => {
      const start = '{"model":"coder-1","max_tokens":64,"messages":[{"role":"user","content":"hi"}]';
      const body = Buffer.from(`${start},${make(SIZE)}}`);
      await longestPause();
      const responses = await atOnce('/v1/messages', body);
      const { ms, words } = await longestPause();
      t.diagnostic(words);
      for (const { status, text } of responses) assert.ok(status === 200 || status === 400, text.slice(0, 300));
      assert.ok(ms <= PAUSE_MS_MAX, words);
      upstream.requests.length = 0;
    });
  }
});

describe('a hostile answer', () => {
  const FEW = ['empty objects'];
  const ANSWER = JSON.stringify(message()).slice(0, -1);
  const REQUESTS = {
    '/v1/messages': '{"model":"coder-1","max_tokens":64,"messages":[{"role":"user","content":"hi"}]',
    '/v1/chat/completions': '{"model":"coder-1","messages":[{"role":"user","content":"hi"}]',
  };
  for (const [name, make] of shapes(FEW)) {
    test(`of ${name} stops the gateway for no longer than ${PAUSE_MS_MAX} ms`, async (t) => {
      const members = make(SIZE);
      const start = `event: message_start\ndata: {"type":"message_start","message":${ANSWER},${members}}}\n\n`;
      for (const [path, request] of Object.entries(REQUESTS)) {
        for (const stream of ALL ? [false, true] : [path === '/v1/messages']) {
          upstream.script = stream
            ? answerBytes(200, EVENT_STREAM, start)
            : answerBytes(200, { 'content-type': 'application/json' }, `${ANSWER},${members}}`);
          await longestPause();
          const responses = await atOnce(path, `${request},"stream":${stream}}`);
          const { ms, words } = await longestPause();
          t.diagnostic(`${path}${stream ? ' streamed' : ''}: ${words}`);
          assert.ok(responses.every(({ status }) => status === 200 || status === 502));
          assert.ok(ms <= PAUSE_MS_MAX, words);
          upstream.requests.length = 0;
        }
      }
    });
  }

  test('is passed on untouched, and paid for by what it reports', async () => {
    const body = `${ANSWER},${HOSTILE['empty objects']!(SIZE)}}`;
    upstream.script = answerBytes(200, { 'content-type': 'application/json' }, body);
    const response = await ask(gateway.url, token);
    assert.equal(response.status, 200);
    assert.ok(response.body.equals(Buffer.from(body)));
    const client = new pg.Client(database.url);
    await client.connect();
    try {
      const request_id = response.headers['x-gateway-request-id'];
      const row = await until('there is a ledger row', async () => {
        const { rows } = await client.query('select * from ledger where request_id = $1', [request_id]);
        return rows[0];
      });
      assert.deepEqual([Number(row.input_tokens), Number(row.output_tokens)], [100, 40]);
      assert.equal(row.provenance.cost, 'upstream');
    } finally {
      await client.end();
    }
  });
});
