/** A request of 30 MB is forwarded to the next upstream like any other, byte for byte and translated anew. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { describe, test } from 'node:test';
import { beginsWithError, type Play, resets, servedBy } from '../../support/model-provider/fault-server.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { PRICING } from '../support/nine.ts';
import { useSeveral } from './several.ts';

const LENGTH = 30_000_000;
const CONTENT = [{ role: 'user', content: 'long '.repeat(LENGTH / 5) }];

const several = useSeveral({
  count: 3,
  each: { b: { type: 'compat', protocols: ['chat'] } },
  // A model with room for it.
  config: {
    models: [{ id: 'coder-1', context_window: 50_000_000, max_output_tokens: 64_000, pricing: PRICING }],
  },
});

const FAILURES: Readonly<Record<string, Play>> = {
  'resets the connection': resets,
  'begins its stream with an error': beginsWithError(500),
};

describe('a request of 30 MB at an upstream that', () => {
  for (const [what, play] of Object.entries(FAILURES)) {
    test(`${what} goes to an upstream with translation and to one without`, async () => {
      several.faults[0]!.plays.set('a', play);
      several.faults[1]!.plays.set('b', play);
      const stream = play === FAILURES['begins its stream with an error'];
      const got = await several.ask(what, { messages: CONTENT, ...(stream && { stream }) });
      assert.equal(got.status, 200, got.text.slice(0, 500));
      assert.equal(textIn('messages', stream ? eventsIn(got.text) : got.json()), servedBy('c'));
      // A kept connection that is reset could be a stale one, and is retried once.
      assert.deepEqual(several.counts(), play === resets ? [several.counts()[0], several.counts()[1], 1] : [1, 1, 1]);
      const [first, second, third] = several.faults.map((server, at) => server.requests('abc'[at]!)[0]!);
      assert.ok(first!.body.length > LENGTH);
      assert.equal(third!.sha256, first!.sha256);
      const sent = JSON.stringify({ model: 'coder-1', max_tokens: 64, messages: CONTENT, ...(stream && { stream }) });
      assert.equal(third!.sha256, hash('sha256', sent));
      const translated = JSON.parse(second!.body.toString());
      assert.equal(translated.messages.at(-1).content.length, LENGTH);
    });
  }
});
