/** Which upstreams a request can go to, and those that a past one went to. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { describeDryRun } from '../../../engine/cli/explain/describe-dry-run.ts';
import { explain } from '../../../engine/cli/explain/explain.ts';
import type { DryRun } from '../../../engine/explain/dry-run.ts';
import { replayRecord } from '../../../engine/explain/past-request.ts';
import { load } from '../../../engine/load/index.ts';
import { stages } from '../../../stages/index.ts';
import { createProject, type Project } from '../../load/support/project.ts';
import { collectingContext } from './reference-context.ts';

const CONFIG = `server: { listen: "127.0.0.1:8080", public_url: "https://gateway.example.com" }
upstreams:
  - { name: main, base_url: "https://api.example.com", api_key_env: UPSTREAM_KEY }
  - { name: spare, base_url: "https://spare.example.com", api_key_env: SPARE_KEY, supports: { prompt_cache_1h: false } }
  - { name: other, type: compat, base_url: "https://other.example.com/v1", api_key_env: OTHER_KEY }
  - { name: strict, base_url: "https://strict.example.com", api_key_env: STRICT_KEY, on_unsupported_cache: refuse, supports: { prompt_cache_1h: false } }
models:
  - { id: coder-1, max_output_tokens: 64000, upstream_ids: { spare: coder-1@2026 }, pricing: { input: 3, output: 15 } }
  - { id: mini-1, max_output_tokens: 64000, pricing: { input: 1, output: 5 } }
  - { id: lone-1, max_output_tokens: 64000, pricing: { input: 1, output: 5 } }
  - { id: far-1, max_output_tokens: 64000, pricing: { input: 1, output: 5 } }
token_groups: [{ name: all, models: ["*"] }]
routing:
  default_upstreams: [main, spare, other, strict]
  rules:
    - { name: shared, models: [mini-1], upstreams: [{ upstream: spare, weight: 3 }, { upstream: main, weight: 1 }, { upstream: other, order: 2 }] }
    - { name: far, models: [far-1], upstreams: [spare, other] }
    - { name: lone, models: [lone-1], upstream: spare, on_unsupported_cache: pass }
`;

const cached = [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral', ttl: '1h' } }];
const request = (model: string, more: object = {}) =>
  JSON.stringify({ model, max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }], ...more });

let project: Project;
before(() => {
  project = createProject({
    'gateway.yaml': CONFIG,
    'plain.json': request('coder-1'),
    'cached.json': request('coder-1', { system: cached }),
    'far.json': request('far-1', { system: cached }),
    'lone.json': request('lone-1'),
    'shared.json': request('mini-1'),
  });
});
after(() => project.remove());

async function explained(file: string, path?: string): Promise<{ readonly run: DryRun; readonly text: string }> {
  const words = [project.path(file)];
  const given = { config: project.path('gateway.yaml'), config_named: true, words, ...(path && { path }) };
  const [asked, shown] = [collectingContext(), collectingContext()];
  assert.equal(await explain(asked.context, { ...given, json: true }), 0);
  assert.equal(await explain(shown.context, given), 0);
  return { run: JSON.parse(asked.data()) as DryRun, text: shown.data() };
}

const brief = ({ upstreams }: DryRun) => upstreams.map(({ upstream, turn, dropped }) => [upstream, turn ?? dropped]);

describe('a request to come', () => {
  test('is told every upstream it can go to, in order, and for which it would be translated', async () => {
    const { run, text } = await explained('plain.json');
    assert.deepEqual(brief(run), [
      ['main', 1],
      ['spare', 2],
      ['other', 3],
      ['strict', 4],
    ]);
    assert.equal(run.upstreams[1]?.upstream_model, 'coder-1@2026');
    assert.match(text, /\n {2}3 {2}other, translated into chat\n/);
  });

  test('is told why an upstream of its route is not asked', async () => {
    const { run, text } = await explained('cached.json');
    const dropped = Object.fromEntries(run.upstreams.map(({ upstream, dropped }) => [upstream, dropped]));
    assert.deepEqual([dropped.main, dropped.spare, dropped.strict], [undefined, 'cache', 'cache']);
    const [spare, strict] = ['spare', 'strict'].map((name) => run.upstreams.find(({ upstream }) => upstream === name));
    assert.deepEqual([spare?.cache_downgraded, spare?.is_last_resort], [true, true]);
    assert.deepEqual([strict?.cache_downgraded, strict?.is_last_resort], [undefined, undefined]);
    assert.match(text, /\n {2}- {2}spare, with a prompt cache of five minutes: it\s+does\s+not\s+keep[^(]+\(cache\)\n/);
    const [section = ''] = /^Upstreams, .*?\n\n/ms.exec(text) ?? [];
    assert.ok(
      section.split('\n').every((line) => line.length <= 80),
      section,
    );
  });

  test('does not leave its protocol for the sake of a lifetime that the translation drops', async () => {
    const { run } = await explained('far.json');
    assert.deepEqual(brief(run), [
      ['spare', 1],
      ['other', 2],
    ]);
    assert.equal(run.upstreams[0]?.cache_downgraded, true);
  });

  test('is told nothing of a translation for an upstream that cannot do what is asked at all', async () => {
    const { run, text } = await explained('plain.json', '/v1/messages/count_tokens');
    assert.deepEqual(brief(run), [
      ['main', 1],
      ['spare', 2],
      ['strict', 3],
      ['other', 'protocol'],
    ]);
    assert.match(text, /\n {2}- {2}other: it does not speak/);
  });

  test('is told nothing of the kind where its route has one upstream', async () => {
    const { run, text } = await explained('lone.json');
    assert.deepEqual(run.upstreams, []);
    assert.doesNotMatch(text, /Upstreams, in the order/);
    assert.match(text, /-> upstream spare, by the rule lone/);
  });
});

test('the rules say where a route leads, in which order and shares', async () => {
  const { context, data } = collectingContext();
  await explain(context, { config: project.path('gateway.yaml'), config_named: true, words: ['rules'] });
  assert.match(data(), /1 {2}shared goes to spare \(75 %\) or main \(25 %\), then other\n/);
  assert.match(data(), /3 {2}lone goes to spare \(on_unsupported_cache: pass\)\n/);
  assert.match(data(), /4 {2}default goes to main, then spare, then other, then strict\n/);
});

const RECORD = {
  request_id: '0b9e4c1e-0000-4000-8000-000000000001',
  at: '2026-03-10T12:00:01.000Z',
  received_at: '2026-03-10T12:00:00.000Z',
  method: 'POST',
  path: '/v1/messages',
  protocol: 'messages',
  model: 'mini-1',
  max_tokens: 100,
  user: 'ann@example.com',
  groups: ['all'],
  token_group: 'all',
};

const ATTEMPT = {
  upstream_model: 'mini-1',
  certainty: 'answered',
  sends: 1,
  upstream_request_id: null,
  cost_nano_usd: 0,
  possibly_billed_nano_usd: null,
} as const;

describe('a past request', () => {
  async function replay(change: object, attempts?: Parameters<typeof replayRecord>[1]['attempts']) {
    const loaded = await load(project.path('gateway.yaml'), { stages, env: {}, environment: 'ignored' });
    const remembered = { record: { ...RECORD, ...change }, counted: { balances: [] }, ...(attempts && { attempts }) };
    const run = replayRecord({ loaded, config: loaded.config! }, remembered);
    return { run, text: describeDryRun(run, 80).join('\n') };
  }

  test('is told the upstreams of today, with the share of sessions where nobody knows its own', async () => {
    const { run, text } = await replay({});
    assert.deepEqual(brief(run), [
      ['spare', 1],
      ['main', 2],
      ['other', 3],
    ]);
    assert.match(
      text,
      /1 {2}spare \(75 % of the sessions\)\n {2}2 {2}main \(25 % of the sessions\)\n {2}3 {2}other, tr/,
    );
  });

  test('is told which upstreams would not be asked for what it asked for', async () => {
    const { run } = await replay({ model: 'coder-1', cache_ttl: '1h', cache_requested_ttl: '1h' });
    assert.equal(run.facts['route.upstream'], 'main');
    assert.deepEqual(
      run.upstreams.filter(({ dropped }) => dropped === 'cache').map(({ upstream }) => upstream),
      ['spare', 'other', 'strict'],
    );
  });

  test('has the attempts of its row in the ledger, with what followed each', async () => {
    const first = { ...ATTEMPT, n: 1, upstream: 'spare', status: 502, outcome: 'bad_gateway', ms: 33.4 };
    const second = { ...ATTEMPT, n: 2, upstream: 'main', status: 200, outcome: 'answered', ms: 120 };
    const { text } = await replay({}, [
      { ...first, reason: 'next_unconfirmed', possibly_billed_nano_usd: 3_000_000 },
      { ...second, reason: 'served' },
    ]);
    assert.match(
      text,
      /What became of it then\n {2}Served by main, after spare.*\n {2}1 {2}spare: bad_gateway, status 502, 33 ms, possibly\s+billed:/,
    );
    assert.match(text, /\(next_unconfirmed\)\n {2}2 {2}main: answered, status 200, 120 ms; its\s+answer/);
    assert.ok(text.split('\n').every((line) => line.length <= 80));
  });

  test('has those of its audit record where that has them, and what was not asked', async () => {
    const limited = {
      ...ATTEMPT,
      n: 1,
      upstream: 'other',
      status: 429,
      outcome: 'limited',
      reason: 'exhausted',
      ms: 5,
    };
    const { run, text } = await replay({ attempts: [limited], dropped: ['main: open'] });
    assert.deepEqual(run.past?.attempts, [limited]);
    assert.match(
      text,
      /1 {2}other: limited, status 429, 5 ms; ended: .*\n(?: {7}.*\n)* {2}- {2}main: it failed too often/,
    );
    assert.deepEqual((await replay({ attempts: 1 })).run.past?.attempts, []);
  });
});
