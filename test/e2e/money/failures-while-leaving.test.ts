/** Failures of the upstream while its client has gone are the upstream's, and answers of nothing cost nobody anything. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { bootGateway, serverSection, type TestGateway } from '../../support/gateway.ts';
import {
  EVENT_STREAM,
  type Exchange,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { open, send } from '../support/client.ts';
import { askBody, modelVia, nineConfig, sending } from '../support/nine.ts';
import { type LedgerRow, ledgerRows, nothingReserved, reserved } from '../support/state.ts';

let upstream: ScriptedUpstream;
let gateway: TestGateway;
before(async () => {
  upstream = await startUpstream();
  const nine = nineConfig(upstream.url);
  const cancelling = (nine.upstreams as object[]).map((each) => ({
    ...each,
    name: `cancel-${(each as { name: string }).name}`,
    on_client_abort: 'cancel',
  }));
  const config = {
    ...nine,
    server: serverSection({ timeouts: { commit_seconds: 0 } }),
    upstreams: [...(nine.upstreams as object[]), ...cancelling],
    routing: {
      default_upstream: 'messages',
      rules: [
        { name: 'cancelled', models: ['budget-1'], upstream: 'cancel-chat' },
        { name: 'chat', models: [modelVia('chat')], upstream: 'chat' },
      ],
    },
  };
  gateway = await bootGateway({ upstream_url: upstream.url, config });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
});

async function rowOf(act: () => Promise<unknown>): Promise<LedgerRow> {
  const known = (await ledgerRows(gateway.database)).length;
  await act();
  // The reservation of a request that was quick is still on its way to the database when its answer is there.
  const rows = await until('it has a row', async () => {
    const found = await ledgerRows(gateway.database);
    return found.length > known && found;
  });
  assert.equal(rows.length, known + 1);
  await nothingReserved(gateway.database);
  return rows.at(-1)!;
}

const asking = (model: string, stream: boolean) =>
  sending('chat', gateway.token, JSON.stringify(askBody('chat', model, 'Hi', { stream })));

function assertOwedByNobody({ cost_nano_usd, provenance }: LedgerRow): void {
  assert.equal(cost_nano_usd, 0);
  assert.ok(Number(provenance.possibly_billed_nano_usd) > 0, JSON.stringify(provenance));
}

describe('an upstream that fails while nobody waits for it', () => {
  const failures: [string, boolean, (exchange: Exchange, left: Promise<void>) => Promise<void>][] = [
    [
      'before it answers',
      false,
      async ({ socket }, left) => {
        await left;
        socket.resetAndDestroy();
      },
    ],
    [
      'in the middle of a stream',
      true,
      async ({ res, socket }, left) => {
        res.writeHead(200, [...EVENT_STREAM]);
        res.write(': working\n\n');
        await left;
        socket.resetAndDestroy();
      },
    ],
    [
      'by ending a stream in which it said nothing',
      true,
      async ({ res }, left) => {
        res.writeHead(200, [...EVENT_STREAM]);
        res.write(': working\n\n');
        await left;
        res.end();
      },
    ],
  ];
  for (const [when, stream, fail] of failures) {
    test(`${when} costs who left nothing, and is kept apart`, async () => {
      const left = Promise.withResolvers<void>();
      upstream.script = (exchange) => fail(exchange, left.promise);
      const row = await rowOf(async () => {
        const seen = upstream.requests.length;
        const asked = open(gateway.url, asking(modelVia('chat'), stream));
        if (stream) for await (const _ of await asked.head) break;
        else await upstream.arrived(seen + 1);
        asked.abort();
        await asked.head.catch(() => {});
        await until('it is reserved', async () => (await reserved(gateway.database)).reservations === 1);
        left.resolve();
      });
      assert.equal(row.aborted, true);
      assertOwedByNobody(row);
    });
  }
});

test('a stream of comments and nothing else costs who stayed nothing', async () => {
  upstream.script = ({ res }) => {
    res.writeHead(200, [...EVENT_STREAM]);
    res.end(': working\n\n: working\n\n');
  };
  assertOwedByNobody(await rowOf(() => send(gateway.url, asking(modelVia('chat'), true))));
});

test('a page that is called JSON is none, and costs nothing', async () => {
  upstream.script = ({ res }) => {
    res.writeHead(200, ['content-type', 'application/json']);
    res.end('<html>Down for maintenance</html>');
  };
  const row = await rowOf(async () => {
    const response = await send(gateway.url, asking(modelVia('chat'), false));
    assert.equal(response.status, 502, response.text);
  });
  assert.equal(row.cost_nano_usd, 0);
});

test('who leaves a cancelled chat behind its last word, before its usage, pays what such requests cost', async () => {
  upstream.script = async ({ res }) => {
    res.writeHead(200, [...EVENT_STREAM]);
    const choices = [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }];
    res.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'm', choices })}\n\n`);
  };
  const row = await rowOf(async () => {
    const asked = open(gateway.url, asking('budget-1', true));
    for await (const _ of await asked.head) break;
    asked.abort();
  });
  assert.equal(row.provenance.cost, 'most');
  assert.ok(row.cost_nano_usd > 100_000_000, String(row.cost_nano_usd));
});
