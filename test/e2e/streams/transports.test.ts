/** A gateway over either transport: its clients see the same, and each response leaves in as few writes as possible. */
import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { bootGateway, mainUpstream, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { ask, bearer, messagesBody, open } from '../support/client.ts';

let upstream: ScriptedUpstream;

before(async () => {
  upstream = await startUpstream();
});
after(async () => {
  await upstream?.close();
});
beforeEach(() => {
  upstream.requests.length = 0;
  upstream.script = answerJson(message());
});

type Write = (this: Socket, ...input: unknown[]) => void;

/** How often something is written to connections of this local port meanwhile. */
async function writesOf(port: number, act: () => Promise<unknown>): Promise<number> {
  const prototype = Socket.prototype as unknown as Record<'_write' | '_writev', Write>;
  const { _write, _writev } = prototype;
  let writes = 0;
  const counted = (write: Write): Write =>
    function (...input) {
      if (this.localPort === port) writes++;
      write.apply(this, input);
    };
  Object.assign(prototype, { _write: counted(_write), _writev: counted(_writev) });
  try {
    await act();
  } finally {
    Object.assign(prototype, { _write, _writev });
  }
  return writes;
}

for (const transport of ['direct', 'proxy'] as const) {
  describe(`transport: ${transport}`, () => {
    let gateway: TestGateway;
    before(async () => {
      const upstreams = [{ ...mainUpstream(upstream.url), transport, on_client_abort: 'cancel' }];
      gateway = await bootGateway({ upstream_url: upstream.url, config: { upstreams } });
    });
    after(async () => {
      await gateway?.close();
    });

    test('a response leaves in one write, and the first event of a stream with its head', async () => {
      const port = Number(new URL(gateway.url).port);
      await ask(gateway.url, gateway.token);
      assert.equal(await writesOf(port, () => ask(gateway.url, gateway.token)), 1);
      let go: (() => void) | undefined;
      upstream.script = async ({ res }) => {
        res.writeHead(200, EVENT_STREAM as string[]);
        res.write(messageEvents()[0]!);
        await new Promise<void>((resolve) => (go = resolve));
        res.end(messageEvents().slice(1).join(''));
      };
      const { head } = open(gateway.url, { headers: bearer(gateway.token), body: messagesBody({ stream: true }) });
      let first = '';
      let rest: AsyncIterator<unknown> | undefined;
      const writes = await writesOf(port, async () => {
        rest = (await head)[Symbol.asyncIterator]();
        first = String((await rest.next()).value);
      });
      assert.deepEqual([first, writes], [messageEvents()[0], 1]);
      go?.();
      while (!(await rest!.next()).done);
    });
  });
}
