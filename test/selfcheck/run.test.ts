import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import fc from 'fast-check';
import type { CheckResult } from '../../engine/base/contract/checks.ts';
import type { SelfCheck, Subject } from '../../engine/edge/selfcheck/check.ts';
import { costOf, listedPrice, planCosts } from '../../engine/edge/selfcheck/models.ts';
import {
  ChecksStopped,
  createGatewayClient,
  isUnreachable,
  noResponse,
  runChecks,
} from '../../engine/edge/selfcheck/run.ts';
import { withoutSecrets } from '../../engine/edge/selfcheck/without-secrets.ts';
import { answerJson, startUpstream } from '../support/model-provider/scripted-upstream.ts';
import { times } from '../support/times.ts';
import { use } from '../support/use.ts';

const SUBJECT: Subject = {
  root_url: 'https://gateway.example.com',
  model: 'coder-1',
  limit_token: undefined,
  header_prefixes: ['vendor'],
  echo: undefined,
  holdsToken: () => false,
  ask: async () => {
    throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
  },
};

const named = (id: string): SelfCheck => ({
  id,
  title: 'a list of models',
  expected: 'a list',
  run: async (subject) => {
    await subject.ask({ path: '/v1/models' });
    return { verdict: 'ok', found: 'a list' };
  },
});

async function all(checks: readonly SelfCheck[]): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  for await (const result of runChecks(checks, SUBJECT)) results.push(result);
  return results;
}

test('a check without a response fails with the reason, and the next one runs', async () => {
  const later: SelfCheck = { ...named('later'), run: async () => ({ verdict: 'ok', found: 'it is there' }) };
  const results = await all([named('models.list'), later]);
  assert.deepEqual(
    results.map(({ id, verdict, found }) => [id, verdict, found]),
    [
      ['models.list', 'failed', 'no response: connection refused'],
      ['later', 'ok', 'it is there'],
    ],
  );
});

test('a check may be skipped; a crash is reported without blame, and an unreadable response is a fault of the gateway', async () => {
  const breaks = async () => {
    throw new TypeError('x is not a function');
  };
  const recurse = (depth: number): number => 1 + recurse(depth + 1);
  const results = await all([
    { ...named('limits'), skipped: () => 'name a token with --limit-token-env' },
    { ...named('messages.json'), run: breaks },
    { ...named('messages.json'), run: async () => ({ found: `${recurse(0)}` }) as never },
  ]);
  const shown = results.map(({ verdict, found }) => `${verdict}: ${found}`);
  assert.deepEqual(shown, [
    'skipped: name a token with --limit-token-env',
    'warning: check crashed (TypeError: x is not a function); result unknown',
    'failed: its response is too large or too deeply nested',
  ]);
  assert.match(results[1]!.remedy!, /report it/);
});

const check = (uses: SelfCheck['uses']): SelfCheck => ({
  id: 'messages.json',
  title: 'An answer',
  expected: 'a message',
  ...(uses && { uses }),
  run: async () => ({ verdict: 'ok', found: 'it' }),
});

test('executed checks never exceed the budget, and each skipped one would have', () => {
  const tokens = fc.option(fc.record({ input: fc.nat(100_000), output: fc.nat(10_000) }), { nil: undefined });
  const usd = fc.double({ min: 0, max: 100, noNaN: true });
  fc.assert(
    fc.property(fc.array(tokens), usd, usd, usd, (uses, input_usd_per_million, output_usd_per_million, max_usd) => {
      const checks = uses.map(check);
      const price = { input_usd_per_million, output_usd_per_million };
      const budget = planCosts(checks, price, max_usd);
      assert.ok(budget.usd <= max_usd);
      const made = checks.filter((each) => !budget.too_dear.has(each) && each.uses !== undefined);
      assert.equal(
        budget.input_tokens,
        made.reduce((sum, each) => sum + each.uses!.input, 0),
      );
      assert.equal(budget.requests, made.length);
      for (const each of budget.too_dear.keys()) assert.ok(budget.usd + costOf(each.uses!, price) > max_usd);
    }),
    { numRuns: times(100) },
  );
});

test('distinguishes the price of a token from that of a million, and ignores what is no price', () => {
  const price = { input_usd_per_million: 3, output_usd_per_million: 15 };
  const rounded = (input: Record<string, unknown>) => {
    const listed = listedPrice(input);
    return (
      listed && {
        input_usd_per_million: Number(listed.input_usd_per_million.toFixed(6)),
        output_usd_per_million: Number(listed.output_usd_per_million.toFixed(6)),
      }
    );
  };
  assert.deepEqual(rounded({ pricing: { prompt: '0.000003', completion: '0.000015' } }), price);
  assert.deepEqual(rounded({ pricing: { input: 3, output: 15 } }), price);
  assert.deepEqual(rounded({ input_cost_per_token: 3e-6, output_cost_per_token: 1.5e-5 }), price);
  for (const prompt of [-1, Number.NaN, Number.POSITIVE_INFINITY, '', ' ', 'free', null, {}, [3], 1e300]) {
    assert.equal(listedPrice({ pricing: { prompt, completion: '0.1' } }), undefined);
  }
  for (const pricing of [undefined, null, 'cheap', 7, [], { prompt: 1 }])
    assert.equal(listedPrice({ pricing }), undefined);
});

let headers: IncomingHttpHeaders;
const gateway = use(() =>
  startUpstream((exchange) => {
    headers = exchange.received.headers;
    return answerJson({})(exchange);
  }),
);

test('the version of Messages is named for requests of Messages, and nowhere else', async () => {
  const header_prefixes = ['vendor', 'other'];
  const input = { root_url: gateway.url, token: 'gw_secret', header_prefixes, seconds: 10, total_seconds: 10 };
  const { ask, close } = createGatewayClient(input);
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

const late = (seconds: number) =>
  Object.assign(new Error(`no response within ${seconds} seconds`), { name: 'TimeoutError', seconds });
const coded = (code: string) => Object.assign(new Error(code), { code });

test('nothing can be checked where no connection comes about, or none that a token may travel on', () => {
  for (const code of ['ECONNREFUSED', 'ENOTFOUND', 'CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID', 'EPROTO']) {
    assert.equal(isUnreachable(coded(code)), true, code);
  }
  assert.equal(isUnreachable(new ChecksStopped('stopped')), true);
  for (const error of [coded('ECONNRESET'), coded('HPE_HEADER_OVERFLOW'), late(60)])
    assert.equal(isUnreachable(error), false, error.message);
});

test('the report of a missing response has its cause and the waiting time', () => {
  const said = (error: unknown) => {
    const { found, remedy } = noResponse(error, 'https://gw.example.com', 60);
    return `${found}; ${remedy}`;
  };
  assert.match(said(late(3)), /^no response within 3 seconds; check whether the upstream is slow/);
  assert.match(said(coded('SELF_SIGNED_CERT_IN_CHAIN')), /authority is unknown; .*NODE_EXTRA_CA_CERTS/);
  assert.match(said(coded('ENOTFOUND')), /host name not found; .*VPN/);
  assert.match(said(coded('HPE_HEADER_OVERFLOW')), /its response headers are too large; .*find the proxy/);
  assert.match(said(coded('ENOVEL')), /error ENOVEL; check that gw\.example\.com is the address of the gateway/);
});

const RESULT: CheckResult = { id: 'models.list', title: 'A list', verdict: 'failed', found: '', duration_ms: 1 };

test('no twelve characters of a token in a row are in a result, wherever it was put and cut', () => {
  const token = fc.string({ minLength: 1, maxLength: 60, unit: 'grapheme-ascii' });
  const cut = fc.record({ token, before: fc.string(), after: fc.string(), from: fc.nat(40), to: fc.nat(60) });
  fc.assert(
    fc.property(cut, ({ token, before, after, from, to }) => {
      const found = before + token.slice(from, to) + after + token;
      const clean = withoutSecrets({ ...RESULT, found, came: found, details: [found] }, [token]);
      for (const text of [clean.found, clean.came!, ...clean.details!]) {
        if (token.length < 12) assert.ok(!text.replaceAll('***', '').includes(token) || '*'.includes(token));
        for (let at = 0; at + 12 <= token.length; at += 1) assert.ok(!text.includes(token.slice(at, at + 12)), text);
      }
    }),
    { numRuns: times(200) },
  );
});

test('a token is found as it is written for an address or JSON, and in the letters of hosts; all else stays unchanged', () => {
  const result: CheckResult = { ...RESULT, found: 'status 200', sent: 'GET /', details: ['one'], remedy: 'none' };
  assert.deepEqual(withoutSecrets(result, ['gw_0123456789abcdef', 'another_token_of_somebody']), result);
  const hidden = (found: string, token: string) => withoutSecrets({ ...RESULT, found }, [token]).found;
  const odd = 'a"b/c+d=e\\f g-0123';
  assert.equal(hidden(`${encodeURIComponent(odd)} ${JSON.stringify(odd)}`, odd), '*** "***"');
  const token = 'gw_AbCdEfGhIjKl';
  const found = `text/${token.toLowerCase()} \u0130 ${token.toUpperCase()}.`;
  assert.equal(hidden(found, token), 'text/*** \u0130 ***.');
});
