/**
 * Clients that leave at any moment, in three protocols, streamed or not, at upstreams whose responses are read on or
 * cancelled. The provider bills every response in full, read or unread, by rules that are written down here.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type { ConfigSections, TestGateway } from '../../support/gateway.ts';
import { type Answer, documentOf, eventsOf } from '../../support/model-provider/model-provider.ts';
import { EVENT_STREAM, type Exchange, type ScriptedUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { randomOf } from '../../support/random.ts';
import { times } from '../../support/times.ts';
import { open } from '../support/client.ts';
import { askBody, nineConfig, PRICING, sending } from '../support/nine.ts';
import { ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const LEAVERS = times(200);
const AT_ONCE = 40;
const MAX_TOKENS = 20_000;
/** USD per token, and the maximum cost of 20,000 tokens out and 600 bytes in: no request can be off by more. */
const OFF_BY_AT_MOST_USD = (MAX_TOKENS * PRICING.output + 600 * PRICING.cache_write_1h) / 1e6;

interface Billed {
  requests: number;
  usd: number;
}

let upstream: ScriptedUpstream;
let gateway: TestGateway;
/** By the first letters of the path. */
const bills: Record<'drain' | 'cancel', Billed> = { drain: { requests: 0, usd: 0 }, cancel: { requests: 0, usd: 0 } };

/** Whole numbers below another one. */
function diceOf(name: string): (below: number) => number {
  const random = randomOf(name);
  return (below) => Math.floor(random() * below);
}

/** Says a few words and calls a tool; most of what it bills is hidden reasoning. */
async function answer({ received, res }: Exchange): Promise<void> {
  const url = received.url;
  const protocol: Protocol = url.includes('messages') ? 'messages' : url.includes('chat') ? 'chat' : 'responses';
  const random = diceOf(`answer ${upstream.requests.length}`);
  const thought = random(9000);
  const used = { input: 40 + random(60), output: 30 + thought, cache_read: 0, cache_write: 0, reasoning: thought };
  const bill = bills[url.startsWith('/cancel') ? 'cancel' : 'drain'];
  bill.requests++;
  bill.usd += (used.input * 3 + used.output * 15) / 1e6;
  const said: Answer['said'] = [
    { kind: 'text', text: 'A few words.' },
    { kind: 'call', name: 'read', arguments: '{"path":"/a"}' },
  ];
  const stream = JSON.parse(received.body.toString()).stream === true;
  const parts = stream ? eventsOf(protocol, { said, used }) : [JSON.stringify(documentOf(protocol, { said, used }))];
  for (let i = random(4); i > 0; i--) await new Promise((resolve) => setImmediate(resolve));
  res.writeHead(200, stream ? [...EVENT_STREAM] : ['content-type', 'application/json']);
  for (const part of parts) {
    res.write(part);
    await new Promise((resolve) => setImmediate(resolve));
  }
  res.end();
}

function config(url: string): ConfigSections {
  const key = { api_key_env: 'TEST_UPSTREAM_KEY' };
  const modes = ['drain', 'cancel'] as const;
  const each = modes.flatMap((mode) => PROTOCOLS.map((protocol) => ({ mode, protocol, name: `${mode}-${protocol}` })));
  return {
    ...nineConfig(url),
    upstreams: each.map(({ mode, protocol, name }) => ({
      name,
      ...(protocol === 'messages' ? { type: 'vendor' } : { type: 'compat', protocols: [protocol] }),
      base_url: `${url}/${mode}`,
      on_client_abort: mode,
      ...key,
    })),
    models: each.map(({ name }) => ({
      id: name,
      context_window: 200_000,
      max_output_tokens: MAX_TOKENS,
      pricing: PRICING,
    })),
    routing: {
      default_upstream: 'drain-messages',
      rules: each.map(({ name }) => ({ name, models: [name], upstream: name })),
    },
  };
}

useGateway((opened) => {
  ({ upstream, gateway } = opened);
}, config);

/** Sends a request, and leaves at some moment: before the response, or after so many bytes of it, which may be all. */
async function leaveEarly(number: number): Promise<void> {
  const random = diceOf(`leaver ${number}`);
  const spoken = PROTOCOLS[random(3)]!;
  const protocol = PROTOCOLS[random(3)]!;
  const stream = random(3) > 0;
  const body = askBody(spoken, `${number % 2 === 0 ? 'drain' : 'cancel'}-${protocol}`, 'Hi', {
    stream,
    ...(spoken === 'messages' && { max_tokens: MAX_TOKENS }),
    ...(spoken === 'chat' && stream && { stream_options: { include_usage: true } }),
  });
  const asked = open(gateway.url, sending(spoken, gateway.token, JSON.stringify(body)));
  if (random(4) === 0) {
    for (let i = random(40); i > 0; i--) await new Promise((resolve) => setImmediate(resolve));
    asked.abort();
    await asked.head.catch(() => {});
    return;
  }
  let left = random(4000);
  const head = await asked.head;
  head.on('error', () => {});
  try {
    for await (const chunk of head) {
      left -= chunk.length;
      if (left <= 0) break;
    }
  } catch {}
  asked.abort();
}

test('what early leavers are charged is at least what the provider bills, and no more than check allows', async () => {
  upstream.script = answer;
  let next = 0;
  const leave = async () => {
    while (next < LEAVERS) await leaveEarly(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, leave));
  await nothingReserved(gateway.database);
  const rows = await ledgerRows(gateway.database);
  assert.equal(rows.length, bills.drain.requests + bills.cancel.requests, 'a row for each that reached the provider');
  assert.ok(rows.some(({ aborted }) => aborted));
  const charged = (mode: string) =>
    rows.filter((row) => row.upstream.startsWith(mode)).reduce((sum, row) => sum + row.cost_nano_usd, 0) / 1e9;
  assert.ok(Math.abs(charged('drain') - bills.drain.usd) < 1e-6, `${charged('drain')} of ${bills.drain.usd} USD`);
  const unknown = rows.filter(({ provenance }) => provenance.cost !== 'upstream');
  assert.ok(
    unknown.length > 0 && unknown.every((row) => row.upstream.startsWith('cancel')),
    `${unknown.length} unknown`,
  );
  assert.ok(charged('cancel') >= bills.cancel.usd, `${charged('cancel')} of ${bills.cancel.usd} USD`);
  assert.ok(charged('cancel') - bills.cancel.usd <= unknown.length * OFF_BY_AT_MOST_USD);
});
