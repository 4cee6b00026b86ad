/** A gateway of several upstreams that is stopped: each client hears of it once, and every attempt is accounted for. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { gatewayConfig, serverSection } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  hang,
  messageEvents,
  type Script,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { standIn, use } from '../../support/use.ts';
import { eventsIn } from '../streams/streams.ts';
import { open, type Response, readAll } from '../support/client.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { askBody, sending } from '../support/nine.ts';
import { useProcessScene } from '../support/process-scene.ts';
import { reserved } from '../support/state.ts';

const DRAIN_SECONDS = 1;
let token: string;
let gateway: GatewayProcess;

const second = use(() => startUpstream(hang));
const scene = useProcessScene({
  script: hang,
  sections: (url) => ({
    server: serverSection({ timeouts: { drain_seconds: DRAIN_SECONDS } }),
    upstreams: [
      { name: 'first', type: 'vendor', base_url: url, api_key_env: 'TEST_UPSTREAM_KEY' },
      { name: 'second', type: 'vendor', base_url: second.url, api_key_env: 'TEST_UPSTREAM_KEY' },
    ],
    routing: {
      default_upstreams: [
        { upstream: 'first', order: 1 },
        { upstream: 'second', order: 2 },
      ],
      rules: [{ name: 'alone', models: ['mapped-1'], upstream: 'first' }],
    },
    models: (gatewayConfig('').models as readonly { id: string }[]).map((model) => ({ ...model, upstream_ids: {} })),
  }),
});
const first = standIn(() => scene.upstream);
before(async () => {
  token = await scene.newToken();
  gateway = await scene.start();
});

/** Plays several requests at one upstream, distinguished by their text. */
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

test('SIGTERM ends requests in flight at several upstreams with one error each, starts none after it, and settles the ledger', async () => {
  first.script = byWords({
    'half a messages stream': halfStream,
    'half a chat stream': halfStream,
    'half a responses stream': halfStream,
    'a translated stream': failing,
    'no answer': failing,
    'a wait': busy,
  });
  second.script = byWords({ 'a translated stream': halfStream });
  const ask = (spoken: Protocol, words: string, more: object = {}) =>
    open(gateway.url, sending(spoken, token, JSON.stringify(askBody(spoken, 'coder-1', words, more)))).head.then(
      readAll,
    );
  const streams = {
    messages: ask('messages', 'half a messages stream', { stream: true }),
    chat: ask('chat', 'half a chat stream', { stream: true }),
    responses: ask('responses', 'half a responses stream', { stream: true }),
    translated: ask('chat', 'a translated stream', { stream: true }),
  };
  const unanswered = ask('messages', 'no answer');
  await until('all have arrived', () => first.requests.length === 5 && second.requests.length === 2);
  // The last of them, as it does not wait for long.
  const waiting = ask('messages', 'a wait', { model: 'mapped-1' });
  await until('it has arrived', () => first.requests.length === 6);
  const asked = () => first.requests.length + second.requests.length;
  const before_end = asked();

  gateway.child.kill('SIGTERM');
  await Promise.all([...Object.values(streams), unanswered, waiting]);

  const errors = { messages: 'error', chat: 'error', responses: 'error response.failed', translated: 'error' };
  for (const [name, response] of Object.entries(streams)) {
    const { status, text } = await response;
    const kinds = eventsIn(text).flatMap(({ data }) =>
      data.error === undefined && !/error|failed/.test(data.type) ? [] : [data.type ?? 'error'],
    );
    assert.deepEqual([status, kinds.join(' ')], [200, errors[name as keyof typeof errors]], text);
  }
  for (const response of [unanswered, waiting]) {
    const { status, text } = await response;
    assert.deepEqual([status, JSON.parse(text).error.code], [503, 'draining'], text);
  }
  assert.deepEqual(await gateway.ended, { code: 0, signal: null }, gateway.output());
  assert.equal(asked(), before_end, 'no attempt began after the end');

  const { database } = scene;
  assert.deepEqual(await reserved(database), { nano_usd: 0, reservations: 0 });
  const rows = await database
    .knex('ledger_attempts')
    .select('request_id', 'upstream', 'reason', 'certainty', 'n')
    .orderBy('n');
  const of = (response: Response) =>
    rows
      .filter((row: { request_id: string }) => row.request_id === response.headers['x-gateway-request-id'])
      .map(({ upstream, reason, certainty }: Attempted) => `${upstream} ${reason} ${certainty}`);
  assert.deepEqual(of(await streams.messages), ['first served answered']);
  assert.deepEqual(of(await streams.translated), ['first next_failed answered', 'second served answered']);
  assert.deepEqual(of(await unanswered), ['first next_failed answered', 'second gone possibly_accepted']);
  const { differences, repeated, uncounted } = await verifyLedger({ database, clock: systemClock });
  for (const found of [differences, repeated, uncounted]) assert.deepEqual(found, { total: 0, first: [] });
});
