import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { after, before, test } from 'node:test';
import { createAsker } from '../../engine/selfcheck/ask.ts';
import { answerJson, type ScriptedUpstream, startUpstream } from '../support/model-provider/scripted-upstream.ts';

let gateway: ScriptedUpstream;
/** The headers of the last request. */
let headers: IncomingHttpHeaders;
before(async () => {
  gateway = await startUpstream((exchange) => {
    headers = exchange.received.headers;
    return answerJson({})(exchange);
  });
});
after(() => gateway.close());

test('the version of Messages is named where clients of Messages ask, and nowhere else', async () => {
  const header_prefixes = ['vendor', 'other'];
  const given = { root_url: gateway.url, token: 'gw_secret', header_prefixes, seconds: 10, total_seconds: 10 };
  const { ask, close } = createAsker(given);
  const paths = {
    '/v1/messages': true,
    '/v1/messages?beta=true': true,
    '/v1/messages/count_tokens': true,
    '/v1/models?limit=1000': true,
    '/v1/models': false,
    '/v1/chat/completions': false,
    '/v1/responses': false,
    '/': false,
  };
  for (const [path, is_named] of Object.entries(paths)) {
    await ask({ path });
    const versions = ['vendor-version', 'other-version'].map((name) => headers[name]);
    assert.deepEqual(versions, is_named ? ['2023-06-01', '2023-06-01'] : [undefined, undefined], path);
  }
  await ask({ path: '/v1/responses', headers: { 'vendor-version': 'mine' } });
  assert.equal(headers['vendor-version'], 'mine');
  close();
});
