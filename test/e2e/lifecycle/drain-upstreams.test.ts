/** A gateway of several upstreams that is told to stop: each client hears of it once, and every attempt is accounted for. */
import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Protocol } from '../../../engine/contract/protocol.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig, makeToken, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  hang,
  messageEvents,
  type Script,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { open as openTestDatabase } from '../../support/open-database.ts';
import { until } from '../../support/until.ts';
import { eventsIn } from '../streams/streams.ts';
import { open, type Response, readAll } from '../support/client.ts';
import { type GatewayProcess, startGatewayProcess } from '../support/gateway-process.ts';
import { askBody, sending } from '../support/nine.ts';
import { reserved } from '../support/state.ts';

const DRAIN_SECONDS = 1;
/** Waits for the test before a second attempt, as it might for a database that moves a reservation. */
const SLOW = `
import { defineStage } from 'appscli';
export default defineStage({
  name: 'slow', version: 1, summary: 'Takes its time before a second attempt.',
  options: { type: 'object', additionalProperties: false, properties: {} }, examples: [],
  create: () => ({
    attempt(ctx) {
      if (ctx.attempts.length > 0 && ctx.headers['x-slow'] !== undefined) return fetch(process.env.TEST_RELEASE_URL).then(() => {});
    },
  }),
});
`;

const PIPELINE = `
pipeline: messages
version: 2
summary: Forwards Messages requests past a stage that takes its time.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: resolve-route
  - stage: slow
  - stage: check-budget
  - stage: meter-usage
  - stage: translate
  - stage: forward
finally:
  - stage: audit
`;

/** Answers the stage when the test lets it go on. */
const release = Promise.withResolvers<void>();
let releases: ScriptedUpstream;
let first: ScriptedUpstream;
let second: ScriptedUpstream;
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let config: Awaited<ReturnType<typeof writeConfig>>;
let env: NodeJS.ProcessEnv;
let token: string;
let gateway: GatewayProcess;

before(async () => {
  [first, second] = await Promise.all([startUpstream(hang), startUpstream(hang)]);
  releases = await startUpstream(async ({ res }) => {
    await release.promise;
    res.end();
  });
  database = await createTestDatabase();
  const own = await openTestDatabase(database.url);
  token = await makeToken(own);
  await own.close();
  env = {
    ...process.env,
    TEST_UPSTREAM_KEY: UPSTREAM_KEY,
    TEST_DATABASE_URL: database.url,
    TEST_RELEASE_URL: releases.url,
  };
  const upstreams = [first, second].map(({ url }, i) => ({
    name: i === 0 ? 'first' : 'second',
    type: 'vendor',
    base_url: url,
    api_key_env: 'TEST_UPSTREAM_KEY',
  }));
  config = await writeConfig(
    gatewayConfig('', {
      server: {
        listen: '127.0.0.1:0',
        public_url: 'http://127.0.0.1',
        timeouts: { drain_seconds: DRAIN_SECONDS },
        drain: { accept_seconds: 0 },
      },
      upstreams,
      routing: {
        default_upstreams: [
          { upstream: 'first', order: 1 },
          { upstream: 'second', order: 2 },
        ],
        rules: [{ name: 'alone', models: ['mapped-1'], upstream: 'first' }],
      },
      models: (gatewayConfig('').models as readonly { id: string }[]).map((model) => ({ ...model, upstream_ids: {} })),
      pipelines: './pipelines',
      stages: ['./slow.ts'],
    }),
  );
  await mkdir(join(config.directory, 'pipelines'));
  await writeFile(join(config.directory, 'pipelines', 'messages.yaml'), PIPELINE);
  await writeFile(join(config.directory, 'slow.ts'), SLOW);
  gateway = await startGatewayProcess(config.config_file, env);
});
after(async () => {
  gateway?.child.kill('SIGKILL');
  await gateway?.ended;
  await database?.drop();
  await Promise.all([first, second, releases].map((each) => each?.close()));
  await rm(config.directory, { recursive: true, force: true });
});

/** Plays several requests at one upstream, told apart by what they say. */
function byWords(scripts: Readonly<Record<string, Script>>): Script {
  return (exchange) => {
    const [, script = hang] = Object.entries(scripts).find(([words]) => exchange.received.body.includes(words)) ?? [];
    return script(exchange);
  };
}

/** The first half of a stream, and then nothing. */
const halfStream: Script = ({ res }) => {
  res.writeHead(200, [...EVENT_STREAM] as string[]);
  res.write(messageEvents(['Half of it.']).slice(0, -2).join(''));
};

const failing: Script = answerJson({ type: 'error', error: { type: 'api_error', message: 'Broken.' } }, 500);
const busy: Script = answerJson({ type: 'error', error: { type: 'overloaded_error', message: 'Busy.' } }, 529, {
  'retry-after': '5',
});

interface Attempted {
  readonly upstream: string;
  readonly reason: string;
  readonly certainty: string;
}

test('SIGTERM ends what is under way at several upstreams with one error each, begins nothing after it, and leaves the books settled', async () => {
  first.script = byWords({
    'half a messages stream': halfStream,
    'half a chat stream': halfStream,
    'half a responses stream': halfStream,
    'a translated stream': failing,
    'no answer': failing,
    'a wait': busy,
    'a slow move': failing,
  });
  second.script = byWords({ 'a translated stream': halfStream });
  const ask = (spoken: Protocol, words: string, more: object = {}, headers: readonly string[] = []) => {
    const request = sending(spoken, token, JSON.stringify(askBody(spoken, 'coder-1', words, more)));
    return open(gateway.url, { ...request, headers: [...request.headers, ...headers] }).head.then(readAll);
  };
  const streams = {
    messages: ask('messages', 'half a messages stream', { stream: true }),
    chat: ask('chat', 'half a chat stream', { stream: true }),
    responses: ask('responses', 'half a responses stream', { stream: true }),
    translated: ask('chat', 'a translated stream', { stream: true }),
  };
  const unanswered = ask('messages', 'no answer');
  const moving = ask('messages', 'a slow move', {}, ['x-slow', '1']);
  await until('all have arrived', () => first.requests.length === 6 && second.requests.length === 2);
  await until('one is about to move', () => releases.requests.length === 1);
  // The last of them, as it does not wait for long.
  const waiting = ask('messages', 'a wait', { model: 'mapped-1' });
  await until('it has arrived', () => first.requests.length === 7);
  const asked = () => first.requests.length + second.requests.length;
  const before_end = asked();

  gateway.child.kill('SIGTERM');
  // None of them waits for the one that is about to move.
  await Promise.all([...Object.values(streams), unanswered, waiting]);
  release.resolve();

  const errors = { messages: 'error', chat: 'error', responses: 'error response.failed', translated: 'error' };
  for (const [name, answer] of Object.entries(streams)) {
    const { status, text } = await answer;
    const kinds = eventsIn(text).flatMap(({ data }) =>
      data.error === undefined && !/error|failed/.test(data.type) ? [] : [data.type ?? 'error'],
    );
    assert.deepEqual([status, kinds.join(' ')], [200, errors[name as keyof typeof errors]], text);
  }
  for (const answer of [unanswered, waiting, moving]) {
    const { status, text } = await answer;
    assert.deepEqual([status, JSON.parse(text).error.code], [503, 'draining'], text);
  }
  assert.deepEqual(await gateway.ended, { code: 0, signal: null }, gateway.output());
  assert.equal(asked(), before_end, 'no attempt began after the end');

  const own = await openTestDatabase(database.url);
  try {
    assert.deepEqual(await reserved(own), { nano_usd: 0, reservations: 0 });
    const rows = await own
      .knex('ledger_attempts')
      .select('request_id', 'upstream', 'reason', 'certainty', 'n')
      .orderBy('n');
    const of = (answer: Response) =>
      rows
        .filter((row: { request_id: string }) => row.request_id === answer.headers['x-gateway-request-id'])
        .map(({ upstream, reason, certainty }: Attempted) => `${upstream} ${reason} ${certainty}`);
    assert.deepEqual(of(await streams.messages), ['first served answered']);
    assert.deepEqual(of(await streams.translated), ['first next_failed answered', 'second served answered']);
    assert.deepEqual(of(await unanswered), ['first next_failed answered', 'second gone possibly_accepted']);
    const { differences, repeated, uncounted } = await verifyLedger({ database: own, clock: systemClock });
    for (const found of [differences, repeated, uncounted]) assert.deepEqual(found, { total: 0, first: [] });
  } finally {
    await own.close();
  }
});
