/** Retry hints of upstreams, in every form of real servers, and what the clients read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerJson } from '../../support/model-provider/scripted-upstream.ts';
import { askBody, COMBINATIONS, modelVia, type Nine, post, useNine } from '../support/nine.ts';

let nine: Nine;
useNine((started) => {
  nine = started;
});

const ERROR = { error: { type: 'rate_limit_error', message: 'Slow down.', code: 'rate_limit_exceeded' } };
const RETRY_INFO = {
  error: {
    code: 429,
    message: 'Quota exceeded.',
    details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '12.4s' }],
  },
};

/** The headers of an upstream with status 429, and the `retry-after` of a translated response. */
const HINTS: readonly (readonly [
  how: string,
  headers: Record<string, string>,
  body: object,
  retry_after: string | undefined,
])[] = [
  ['a fraction', { 'retry-after': '0.5' }, ERROR, '1'],
  [
    'a reset of what is used up',
    { 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '20ms' },
    ERROR,
    '1',
  ],
  ['the error itself', {}, RETRY_INFO, '13'],
  ['nothing that can be read', { 'retry-after': 'soon' }, ERROR, undefined],
];

for (const [spoken, upstream] of COMBINATIONS) {
  const ask = async (headers: Record<string, string>, body: object, status = 429) => {
    nine.provider.upstream.script = answerJson(body, status, headers);
    return post(nine.gateway, spoken, askBody(spoken, modelVia(upstream), 'Hi', { stream: true }));
  };

  if (spoken === upstream) {
    test(`passes a ${upstream} upstream's own headers to ${spoken} clients untouched`, async () => {
      for (const [how, headers, body] of HINTS) {
        const got = await ask(headers, body);
        assert.equal(got.headers['retry-after'], headers['retry-after'], how);
        assert.equal(got.headers['retry-after-ms'], headers['retry-after-ms'], how);
      }
    });
    continue;
  }

  test(`sends ${spoken} clients whole seconds for any format of a ${upstream} upstream`, async () => {
    for (const [how, headers, body, retry_after] of HINTS) {
      const got = await ask(headers, body);
      assert.deepEqual([got.status, got.headers['retry-after']], [429, retry_after], how);
    }
    // Clients of one protocol give up at waits that others would sleep out.
    const long = (await ask({ 'retry-after': '2h' }, ERROR)).headers;
    assert.equal(long['retry-after'], spoken === 'messages' ? '7200' : undefined);
    const long_ms = (await ask({ 'retry-after-ms': '7200000' }, ERROR)).headers['retry-after-ms'];
    assert.equal(long_ms === undefined, spoken !== 'messages');
  });

  test(`sends ${spoken} clients whole seconds where a page replaces a ${upstream} upstream's response`, async () => {
    nine.provider.upstream.script = ({ res }) => {
      res.writeHead(503, { 'content-type': 'text/html', 'retry-after': '2.5' });
      res.end('<html>Busy</html>');
    };
    const got = await post(nine.gateway, spoken, askBody(spoken, modelVia(upstream), 'Hi'));
    assert.deepEqual([got.status, got.headers['retry-after']], [503, '3']);
  });
}
