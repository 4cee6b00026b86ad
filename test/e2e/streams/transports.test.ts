/** A gateway over either transport: its clients see the same, and each response leaves in as few writes as possible. */
import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { describe, test } from 'node:test';
import { bootGateway, mainUpstream } from '../../support/gateway.ts';
import { EVENT_STREAM, messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { use } from '../../support/use.ts';
import { ask, bearer, messagesBody, open } from '../support/client.ts';
import { useUpstream } from '../support/use-gateway.ts';

const upstream = useUpstream();

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
    const gateway = use(() => {
      const upstreams = [{ ...mainUpstream(upstream.url), transport, on_client_abort: 'cancel' }];
      return bootGateway({ upstream_url: upstream.url, config: { upstreams } });
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
