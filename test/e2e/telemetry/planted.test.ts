/** Plants secrets wherever a caller, an upstream or a configuration can, and looks for them in all that is sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UPSTREAM_KEY } from '../../support/gateway.ts';
import { answerChunks, answerJson, message, messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { metricsUrl } from '../../support/telemetry/read-metrics.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { createSecretSearch } from '../hostile/secret-search.ts';
import { bearer, MESSAGES, messagesBody, open, send } from '../support/client.ts';
import { newParent, openTelemetryScene } from './scene.ts';

const COLLECTOR_KEY = 'planted-collector-key-51c0aa9e7d';
const METRICS_TOKEN = 'planted-metrics-token-e2b7719c04';
const EMAIL = 'planted.person.84c1@example.com';

const search = createSecretSearch();
let made = 0;
function secret(what: string): string {
  const text = `planted-${(++made).toString(16).padStart(2, '0')}-9d4e71b6a3c85f20`;
  search.plant(what, text);
  return text;
}

const scene = use(() =>
  openTelemetryScene({
    real_log: true,
    otlp: { headers_env: 'TEST_OTLP_HEADERS', logs: true },
    telemetry: {
      metrics: { interval_seconds: 1, listen: '127.0.0.1:0', token_env: 'TEST_METRICS_TOKEN', team: true },
      caller: 'pseudonym',
      propagate: 'join',
    },
    env: { TEST_OTLP_HEADERS: `x-collector-key=${COLLECTOR_KEY}`, TEST_METRICS_TOKEN: METRICS_TOKEN },
  }),
);

function plantedBody(more: object = {}): object {
  const kept = { type: 'ephemeral', ttl: '1h' };
  return {
    system: [{ type: 'text', text: secret('a system prompt'), cache_control: kept }],
    messages: [
      { role: 'user', content: secret('a prompt') },
      {
        role: 'assistant',
        content: [
          {
            type: 'tool_use',
            id: secret('the id of a tool use'),
            name: 'run',
            input: { x: secret('the input of a tool') },
          },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: secret('the output of a tool') }] },
    ],
    tools: [{ name: 'run', description: secret('the description of a tool'), input_schema: { type: 'object' } }],
    metadata: { user_id: secret('a user id') },
    stop_sequences: [secret('a stop sequence')],
    ...more,
  };
}

const plantedHeaders = () => [
  ...['x-claude-code-session-id', secret('a session id')],
  ...['x-secret', secret('an unknown header')],
  ...['cookie', `session=${secret('a cookie')}`],
  ...['baggage', `key=${secret('baggage')}`],
  ...['user-agent', `client/1.0 (${secret('a comment of a user-agent')})`],
  ...['x-forwarded-for', '203.0.113.77'],
  ...['referer', `http://x.example/${secret('a referer')}`],
];

test('no prompt, response, secret or address is in a span, a metric, a log record or baggage', async () => {
  const { gateway, collector, upstream } = scene;
  const token = await gateway.newToken({ user: EMAIL, team: 'red', name: secret('the name of a token') });
  const secrets = {
    'an access token': token,
    'the token of another': gateway.token,
    "the upstream's key": UPSTREAM_KEY,
    'the metrics token': METRICS_TOKEN,
    'the e-mail address of the caller': EMAIL,
    'the database password': new URL(gateway.env.TEST_DATABASE_URL!).password,
  };
  for (const [what, text] of Object.entries(secrets)) search.plant(what, text);

  const ask = async (body: object, { path = MESSAGES, more = [] as readonly string[], with_token = token } = {}) => {
    const headers = bearer(with_token, ['traceparent', newParent().header, ...plantedHeaders(), ...more]);
    return (await send(gateway.url, { path, headers, body: messagesBody(plantedBody(body)) })).status;
  };
  const responses = upstream.script;
  upstream.script = answerJson(
    { ...message(), id: secret("the answer's id"), content: [{ type: 'text', text: secret('an answer') }] },
    200,
    { 'x-upstream-note': secret("a header of the upstream's"), 'set-cookie': secret("the upstream's cookie") },
  );
  assert.equal(await ask({}), 200);
  assert.equal(await ask({}, { path: `${MESSAGES}?key=${secret('the query')}` }), 200);
  upstream.script = answerChunks(messageEvents([secret('a streamed answer'), 'and more']));
  assert.equal(await ask({ stream: true }), 200);
  upstream.script = answerChunks([
    ...messageEvents([secret('the beginning of a broken answer')]).slice(0, 4),
    `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'api_error', message: secret('an error in a stream') } })}\n\n`,
  ]);
  await ask({ stream: true });
  for (const status of [400, 401, 403, 404, 413, 429, 500, 529]) {
    const error = {
      type: secret(`the type of a ${status}`),
      message: `messages.0: ${secret(`the message of a ${status}`)}`,
    };
    upstream.script = answerJson({ type: 'error', error }, status, { 'retry-after': '0' });
    assert.ok((await ask({ model: 'pair-1' })) >= 400);
  }
  upstream.script = responses;
  assert.equal(await ask({ model: 'minutes-1' }), 200);
  assert.equal(await ask({ model: `sk-ant-${secret('a key in the place of a model')}` }), 404);
  assert.equal(await ask({ model: token }), 404);
  assert.equal(await ask({ model: `${secret('a sentence for a model')} and a sentence` }), 404);
  assert.equal(await ask({}, { with_token: secret('an unknown token') }), 401);
  assert.equal(await ask({}, { path: `/v1/${secret('an unknown path')}` }), 404);
  assert.equal(await ask({ max_tokens: secret('a number that is none') }), 400);
  const cut = {
    headers: bearer(token, plantedHeaders()),
    body: `{"model":"coder-1","system":"${secret('a body cut short')}`,
  };
  assert.equal((await send(gateway.url, cut)).status, 400);
  const leaving = open(gateway.url, { headers: bearer(token), body: messagesBody(plantedBody({ model: 'late-1' })) });
  await upstream.arrived(upstream.requests.length + 1);
  leaving.abort();
  await collector.span('that of a client that left', ({ attributes }) => attributes['gateway.aborted'] === true);

  const last = newParent();
  await send(gateway.url, { headers: bearer(token, ['traceparent', last.header]), body: messagesBody() });
  await collector.span('the last', ({ trace_id }) => trace_id === last.trace_id);
  await collector.point('gateway.requests', ({ labels }) => labels['gateway.outcome'] === 'aborted');
  const scrape = await fetch(metricsUrl(scene.gateway), { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
  const scraped = await scrape.text();
  assert.equal(scrape.status, 200, scraped);

  assert.ok(collector.spans.length > 20, `${collector.spans.length} spans`);
  await until('log lines are there', () => collector.logs.length >= 3);
  const wire = collector.wire();
  assert.ok(wire.includes(COLLECTOR_KEY), 'headers are looked at, and the collector gets its own key');
  search.look('what the collector got', wire);
  search.look('the answer of /metrics', scraped);
  const sent_up = upstream.requests.map(({ headers }) => [headers.baggage, headers.traceparent, headers.tracestate]);
  search.look('the trace headers of upstreams', JSON.stringify(sent_up));
  search.plant("the collector's key", COLLECTOR_KEY);
  search.look('the log', gateway.logs.join('\n'));
  assert.ok(search.planted() > 200, `there are ${search.planted()} secrets to look for`);
  const found = search
    .found()
    .filter(({ what, place }) => place !== 'what the collector got' || what !== "the collector's key");
  // The log of an operator names the rejected user.
  const seen = found.filter(({ what, place }) => place !== 'the log' || !/e-mail|name of a token/.test(what));
  assert.deepEqual(seen, []);
});
