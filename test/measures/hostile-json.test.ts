/** JSON made to be expensive, 31 MiB of it, in requests and in responses: no other caller waits long for it. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { HOSTILE, HOSTILE_ANSWER, HOSTILE_REQUEST, SIZE, startHostileTarget } from '../e2e/hostile/hostile-json.ts';
import { ask } from '../e2e/support/client.ts';
import { answerBytes, EVENT_STREAM } from '../support/model-provider/scripted-upstream.ts';
import { until } from '../support/until.ts';
import { use } from '../support/use.ts';

/** What the gateway must keep, on the clock of its processor: the machine may have other things to do. */
const PAUSE_MS_MAX = 250;
const WATCH = pathToFileURL(`${import.meta.dirname}/longest-pause.ts`).href;

const target = use(() => startHostileTarget(`--import=${WATCH}`));
before(async () => {
  for (let i = 0; i < 20; i++) assert.equal((await ask(target.gateway.url, target.token)).status, 200);
});

/** The longest pause since it was last asked. */
async function longestPause(): Promise<{ ms: number; words: string }> {
  const before = target.gateway.output().length;
  target.gateway.child.kill('SIGUSR2');
  const reported = /longest pause: ((\d+) ms .*)\n/;
  const [, words, ms] = await until(
    'the gateway reports its longest pause',
    () => reported.exec(target.gateway.output().slice(before)) ?? false,
  );
  return { ms: Number(ms), words: words! };
}

describe(`the gateway stops for no longer than ${PAUSE_MS_MAX} ms`, () => {
  for (const [name, make] of Object.entries(HOSTILE)) {
    test(`at a request of ${name}`, async (t) => {
      const body = Buffer.from(`${HOSTILE_REQUEST},${make(SIZE)}}`);
      await longestPause();
      const responses = await target.twice('/v1/messages', body);
      const { ms, words } = await longestPause();
      t.diagnostic(words);
      for (const { status, text } of responses) assert.ok(status === 200 || status === 400, text.slice(0, 300));
      assert.ok(ms <= PAUSE_MS_MAX, words);
      target.upstream.requests.length = 0;
    });

    test(`at a response of ${name}`, async (t) => {
      const members = make(SIZE);
      const start = `event: message_start\ndata: {"type":"message_start","message":${HOSTILE_ANSWER},${members}}}\n\n`;
      const { script } = target.upstream;
      for (const path of ['/v1/messages', '/v1/chat/completions']) {
        for (const stream of [false, true]) {
          target.upstream.script = stream
            ? answerBytes(200, EVENT_STREAM, start)
            : answerBytes(200, { 'content-type': 'application/json' }, `${HOSTILE_ANSWER},${members}}`);
          await longestPause();
          const responses = await target.twice(path, `${HOSTILE_REQUEST},"stream":${stream}}`);
          const { ms, words } = await longestPause();
          t.diagnostic(`${path}${stream ? ' streamed' : ''}: ${words}`);
          assert.ok(responses.every(({ status }) => status === 200 || status === 502));
          assert.ok(ms <= PAUSE_MS_MAX, words);
          target.upstream.requests.length = 0;
        }
      }
      target.upstream.script = script;
    });
  }
});
