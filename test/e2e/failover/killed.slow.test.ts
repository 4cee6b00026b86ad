/** An upstream that is killed under streams: clients notice the minimum. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventsBy, type Play, servedBy } from '../../support/model-provider/fault-server.ts';
import { until } from '../../support/until.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { bearer, messagesBody, open, type Response, readAll } from '../support/client.ts';
import { nothingReserved } from '../support/state.ts';
import { errorsIn, faultsInBooks, nameOf, useSeveral } from './several.ts';

const STREAMS = 200;
/** Clients with one request after the other. */
const WORKERS = 6;

/** Streams the first half of its response, and the rest on demand. */
function halfUntil(released: Promise<void>): Play {
  return async ({ res, protocol, upstream }) => {
    const events = eventsBy(protocol, upstream);
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(events.slice(0, 4).join(''));
    await released;
    res.end(events.slice(4).join(''));
  };
}

describe('three upstreams with 200 streams', () => {
  const several = useSeveral({ count: 3, route: ['a', 'b', 'c'].map((upstream) => ({ upstream, weight: 1 })) });

  test('one of which is killed: no client sees more than one error, and every request has its attempt', async () => {
    const { faults, gateway } = several;
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    for (const [index, server] of faults.entries()) server.plays.set(nameOf(index), halfUntil(released));
    let asked = 0;
    // Some have only just been sent when it happens.
    const worker = async () => {
      const got: Promise<Response>[] = [];
      while (asked < STREAMS) {
        const session = ['x-claude-code-session-id', `session-${asked++}`];
        const body = messagesBody({ stream: true });
        got.push(readAll(await open(gateway.url, { headers: bearer(gateway.token, session), body }).head));
      }
      return Promise.all(got);
    };
    const all = Promise.all(Array.from({ length: WORKERS }, worker));
    await until(
      'half of them are under way',
      () => several.counts().reduce((sum, count) => sum + count) >= STREAMS / 2,
    );
    await faults[0]!.pause();
    await until('all are under way', () => asked === STREAMS);
    release();
    const got = (await all).flat();

    const broken = got.filter(({ text }) => errorsIn(text) > 0);
    for (const { status, text } of got) {
      assert.equal(status, 200, text);
      assert.ok(errorsIn(text) <= 1, text);
      const said = textIn(
        'messages',
        eventsIn(text).filter(({ name }) => name !== 'error'),
      );
      const whole = ['a', 'b', 'c'].map(servedBy);
      if (errorsIn(text) === 0) assert.ok(whole.includes(said), text);
      else assert.ok(servedBy('a').startsWith(said), 'only streams of the killed one break');
    }
    assert.ok(broken.length > 0, 'some were under way');
    assert.ok(broken.length < STREAMS / 3, `${broken.length} were broken`);
    const reached = several.counts().reduce((sum, count) => sum + count, 0);
    // A request that waits for its head in that moment is sent once more.
    assert.ok(reached <= STREAMS + WORKERS, `${reached} requests reached upstreams`);

    await nothingReserved(gateway.database);
    const attempts = await several.attempts();
    const sent = attempts.filter(({ certainty }) => certainty !== 'not_sent');
    for (const [index, server] of faults.entries()) {
      const own = sent.filter(({ upstream }) => upstream === nameOf(index));
      const sends = own.reduce((sum, attempt) => sum + attempt.sends, 0);
      // Bytes written to the killed one in that moment may be unread there, which is undetectable.
      const unsure = own.filter(({ certainty }) => certainty === 'possibly_accepted').length;
      const seen = server.total();
      assert.ok(
        seen <= sends && sends - unsure <= seen,
        `${nameOf(index)}: ${sends} sent, ${unsure} unsure, ${seen} seen`,
      );
    }
    assert.equal(new Set(attempts.map(({ request_id }) => request_id)).size, STREAMS, 'every request has a row');
    assert.deepEqual(await faultsInBooks(several), {});
  });
});
