import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Exchange } from '../../engine/kit/net/exchange.ts';
import { isUnreachable, NotAsked, noAnswer, proxyNotes } from '../../engine/selfcheck/ask.ts';

const late = (seconds: number) =>
  Object.assign(new Error(`no answer within ${seconds} seconds`), { name: 'TimeoutError', seconds });
const coded = (code: string) => Object.assign(new Error(code), { code });
const answers = async () => ({ status: 404 }) as Exchange;
const fails = (error: Error) => async () => Promise.reject(error);

test('nothing can be checked where no connection comes about, or none that a token may travel on', async () => {
  for (const code of ['ECONNREFUSED', 'ENOTFOUND', 'CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID', 'EPROTO']) {
    assert.equal(await isUnreachable(coded(code), { ask: answers }), true, code);
  }
  assert.equal(await isUnreachable(new NotAsked('it was stopped'), { ask: answers }), true);
});

test('a gateway is checked although its list of models is cut, garbled or late, as long as it answers anything', async () => {
  for (const code of ['ECONNRESET', 'HPE_HEADER_OVERFLOW', 'HPE_INVALID_CONSTANT']) {
    assert.equal(await isUnreachable(coded(code), { ask: fails(coded('ECONNREFUSED')) }), false, code);
  }
  assert.equal(await isUnreachable(late(60), { ask: answers }), false);
  assert.equal(await isUnreachable(late(60), { ask: fails(coded('ECONNRESET')) }), false);
  assert.equal(await isUnreachable(late(60), { ask: fails(late(5)) }), true);
});

test('what is said of no answer fits what went wrong, and says how long was waited', () => {
  const said = (error: unknown) => {
    const { found, remedy } = noAnswer(error, 'https://gw.example.com', 60);
    return `${found}; ${remedy}`;
  };
  assert.match(said(late(3)), /^no answer within 3 seconds; look whether the gateway waits/);
  assert.match(said(coded('SELF_SIGNED_CERT_IN_CHAIN')), /authority is unknown; .*NODE_EXTRA_CA_CERTS/);
  assert.match(said(coded('ENOTFOUND')), /host name not found; .*VPN/);
  assert.match(said(coded('HPE_HEADER_OVERFLOW')), /the headers of its answer are too large; .*which proxy/);
  assert.match(said(coded('ENOVEL')), /error ENOVEL; can gw\.example\.com be reached from here/);
});

test('a proxy that the environment names is mentioned, and its address, which may hold a password, is not', () => {
  const env = { HTTPS_PROXY: 'http://somebody:secret@proxy:3128', http_proxy: '' };
  const notes = proxyNotes('https://gw.example.com', env);
  assert.match(notes.join(), /^HTTPS_PROXY is set/);
  assert.ok(!notes.join().includes('secret'));
  assert.deepEqual(proxyNotes('http://127.0.0.1:8080', env), []);
});
