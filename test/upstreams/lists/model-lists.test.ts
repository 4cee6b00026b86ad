import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import {
  type FetchedList,
  fetchModelList,
  isModelId,
  LISTED_MAX,
  readPage,
} from '../../../engine/domain/upstreams/lists/ask-list.ts';
import { openModelLists } from '../../../engine/domain/upstreams/lists/model-lists.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { collectingLog } from '../../cli/support.ts';
import { answerBytes, answerJson, hang, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { closing, use } from '../../support/use.ts';

const KEY = 'upstream-key-5f3a9c17';
const listOf = (...ids: readonly string[]) => answerJson({ data: ids.map((id) => ({ id })) });
const LISTED = 'claude-sonnet-4-5-20250929';
const MINUTE = 60_000;

const upstream = use(startUpstream);
beforeEach(() => {
  upstream.lists.length = 0;
});

function configFor(more: Partial<GatewayConfig> = {}, name = 'main'): GatewayConfig {
  const config = stageConfig({});
  const [first] = config.upstreams;
  const upstreams = [{ ...first!, name, base_url: upstream.url, api_key_env: 'UPSTREAM_KEY' }];
  return { ...config, upstreams, models: [], from_model_lists: true, ...more };
}

function open() {
  const clock = frozenClock('2026-11-24');
  const { log, lines } = collectingLog();
  const lists = openModelLists({ clock, log });
  const use = async (config = configFor()) => {
    lists.use(config, () => KEY);
    await lists.attempted();
  };
  return { lists, clock, lines, use };
}

describe('the lists of a gateway', () => {
  test('have models by the id that is listed, and by one with another date or none', async () => {
    upstream.script = listOf(LISTED, 'coder-1');
    const { lists, use } = open();
    assert.equal(lists.has('main', LISTED), undefined, 'no request yet');
    await use();
    for (const id of [LISTED, 'claude-sonnet-4-5', 'claude-sonnet-4-5-latest', 'coder-1'])
      assert.equal(lists.has('main', id), true, id);
    for (const id of ['claude-opus-4-5', 'coder-2', '__proto__']) assert.equal(lists.has('main', id), false, id);
    // The catalogue matches all of these with the listed model.
    for (const more of ['evil', ':free', '/../x', '%2f', '-20250929-fast'])
      assert.equal(lists.has('main', `claude-sonnet-4-5${more}`), false, more);
    for (const id of ['CLAUDE-SONNET-4-5', 'anthropic/claude-sonnet-4-5'])
      assert.equal(lists.has('main', id), false, id);
    assert.equal(lists.has('other', LISTED), undefined);
    assert.deepEqual(lists.ids('main'), [LISTED], 'without a price nothing is served');
    lists.close();
  });

  test('report the properties of the listed id, also by another name of it', async () => {
    upstream.script = answerJson({ data: [{ id: LISTED, max_tokens: 64_000 }, { id: 'claude-haiku-4-5' }] });
    const { lists, use } = open();
    assert.equal(lists.entry('main', LISTED), undefined, 'no request yet');
    await use();
    for (const id of [LISTED, 'claude-sonnet-4-5'])
      assert.deepEqual(lists.entry('main', id), { max_tokens: 64_000 }, id);
    for (const id of ['claude-haiku-4-5', 'claude-opus-4-5', '__proto__'])
      assert.equal(lists.entry('main', id), undefined, id);
    lists.close();
  });

  test('are refreshed every ten minutes, and report changes and failures, through which they stay', async () => {
    upstream.script = listOf(LISTED);
    const { lists, clock, lines, use } = open();
    await use();
    const { version } = lists;
    const first = version();
    clock.advance(10 * MINUTE - 1);
    assert.equal(upstream.lists.length, 1);
    clock.advance(1);
    await until('it is waited for again', () => upstream.lists.length === 2 && clock.next() !== undefined);
    assert.equal(version(), first, 'the same list changes nothing');
    assert.equal(lines.length, 1);
    upstream.script = listOf('claude-opus-4-5');
    clock.advance(10 * MINUTE);
    await until('the list is another', () => version() !== first);
    const { models, added, removed } = lines.at(-1)!;
    assert.deepEqual({ models, added, removed }, { models: 1, added: ['claude-opus-4-5'], removed: [LISTED] });
    await until('it is waited for again', () => clock.next() !== undefined);
    upstream.script = answerJson({}, 503);
    clock.advance(10 * MINUTE);
    await until('the failure is reported', () => lines.length === 3);
    assert.match(String(lines[2]!.message), /the last one stays in force/);
    assert.deepEqual(lists.ids('main'), ['claude-opus-4-5']);
    lists.close();
  });

  test('are requested every minute while there is none, which is reported once', async () => {
    upstream.script = answerJson({}, 404);
    const { lists, clock, lines, use } = open();
    await use();
    for (let asked = 2; asked < 5; asked++) {
      clock.advance(MINUTE);
      await until('it is waited for again', () => upstream.lists.length === asked && clock.next() !== undefined);
    }
    assert.equal(lists.has('main', LISTED), undefined);
    const found = lines.map(({ upstream, why }) => [upstream, why]);
    assert.deepEqual(found, [['main', 'it returns status 404']]);
    assert.ok(!JSON.stringify(lines).includes(KEY));
    upstream.script = listOf(LISTED);
    clock.advance(MINUTE);
    await until('the list is there', () => lists.has('main', LISTED) === true);
    assert.equal(lists.has('main', 'claude-opus-4-5'), false);
    lists.close();
  });

  test('stay through a reload, and go with another address or with a section `models`', async () => {
    upstream.script = listOf(LISTED);
    const { lists, use } = open();
    await use();
    upstream.script = answerJson({}, 503);
    await use();
    assert.equal(lists.has('main', LISTED), true);
    const [first] = configFor().upstreams;
    await use(configFor({ upstreams: [{ ...first!, base_url: `${upstream.url}/other` }] }));
    assert.equal(lists.has('main', LISTED), undefined);
    upstream.script = listOf(LISTED);
    await use();
    upstream.lists.length = 0;
    const { from_model_lists: _, ...written } = configFor();
    await use(written);
    assert.equal(lists.has('main', LISTED), undefined);
    assert.equal(upstream.lists.length, 0);
    lists.close();
  });

  test('are not heard of after they were closed', async () => {
    let arrived = false;
    upstream.script = () => {
      arrived = true;
    };
    const { lists, clock, lines } = open();
    lists.use(configFor(), () => KEY);
    await until('it gets a request', () => arrived);
    lists.close();
    await lists.attempted();
    assert.deepEqual(lines, []);
    assert.equal(clock.next(), undefined);
  });
});

const JSON_TYPE = { 'content-type': 'application/json' };

function ask(seconds = 10, more: object = {}): Promise<FetchedList> {
  const { upstreams, server } = stageConfig({});
  const config = { ...upstreams[0]!, base_url: upstream.url, api_key_env: 'UPSTREAM_KEY', ...more };
  return fetchModelList(config, { server, secret: () => KEY, seconds });
}

const entries = (ids: readonly unknown[]) => ids.map((id) => ({ id, type: 'model' }));

describe('the list of an upstream', () => {
  test('is requested with its credential and headers, in the format of its protocol', async () => {
    upstream.script = answerJson({ data: entries(['a-1', 'a-2', 'a-1']) });
    const headers = { 'x-team': 'search', 'x-api-token': { value_env: 'UPSTREAM_KEY' } };
    assert.deepEqual(await ask(10, { headers }), { ids: ['a-1', 'a-2'], entries: new Map() });
    const [request] = upstream.lists;
    assert.equal(request?.method, 'GET');
    assert.equal(request?.url, '/v1/models?limit=1000');
    const header = (name: string) => request?.headers[name];
    assert.equal(header('x-api-key'), KEY);
    assert.equal(header('anthropic-version'), '2023-06-01');
    assert.deepEqual([header('x-team'), header('x-api-token')], ['search', KEY]);
  });

  test('is read to its last page', async () => {
    upstream.script = (exchange) => {
      const after = new URL(exchange.received.url, 'http://x').searchParams.get('after_id');
      const page =
        after === null
          ? { data: entries(['a-1']), has_more: true, last_id: 'a-1' }
          : { data: entries(['a-2']), has_more: false };
      return answerJson(page)(exchange);
    };
    assert.deepEqual(await ask(), { ids: ['a-1', 'a-2'], entries: new Map() });
  });

  test('reads output limits and reasoning settings of models from known forms', async () => {
    const thinks = (adaptive: unknown, enabled: unknown, supported: unknown = true) => ({
      capabilities: {
        thinking: { supported, types: { adaptive: { supported: adaptive }, enabled: { supported: enabled } } },
      },
    });
    const said = [
      { id: 'a-1', max_tokens: 64_000, ...thinks(true, true) },
      { id: 'a-2', max_tokens: null, ...thinks(false, true) },
      { id: 'a-3', max_tokens: 4096, ...thinks(false, false, false) },
      { id: 'b-1', max_tokens: -1, capabilities: null },
      { id: 'b-2', max_tokens: 1.5, capabilities: 'all' },
      { id: 'b-3', max_tokens: '64000', ...thinks('yes', 1) },
      { id: 'b-4', max_tokens: 1e300, capabilities: { thinking: [] } },
    ];
    upstream.script = answerJson({ data: said });
    const asked = await ask();
    assert.ok('entries' in asked);
    assert.deepEqual(
      [...asked.entries],
      [
        ['a-1', { max_tokens: 64_000, thinking: 'adaptive' }],
        ['a-2', { thinking: 'budget' }],
        ['a-3', { max_tokens: 4096, thinking: 'none' }],
      ],
    );
  });

  test('has ids as in requests', async () => {
    upstream.script = answerJson({ data: entries(['models/gemini-2.5-pro', 'models/', 'org/models/a-1']) });
    assert.deepEqual(await ask(), { ids: ['gemini-2.5-pro', 'org/models/a-1'], entries: new Map() });
  });

  test('skips impossible ids', async () => {
    const odd = ['good', '', 'two words', 'bad\u001b[31m', '\u202egpj', 'x'.repeat(201), 7, null, { id: 'x' }];
    upstream.script = answerJson({ data: [...entries(odd), null, 'text', 3, []] });
    assert.deepEqual(await ask(), { ids: ['good'], entries: new Map() });
  });

  const NO_LISTS: Readonly<Record<string, readonly [ReturnType<typeof answerJson>, RegExp]>> = {
    'a page': [answerBytes(200, { 'content-type': 'text/html' }, '<html>login</html>'), /not JSON/],
    'another document': [answerJson({ models: ['a-1'] }), /not a list/],
    'a list of another form': [answerJson({ data: { id: 'a-1' } }), /not a list/],
    'a text': [answerJson('a-1'), /not a list/],
    'no document': [answerJson(null), /not a list/],
    'an empty list': [answerJson({ data: [] }), /empty/],
    'nothing at that path': [answerJson({ error: {} }, 404), /status 404/],
    'a refusal': [answerJson({ error: {} }, 401), /status 401/],
    failing: [answerJson({ error: {} }, 503), /status 503/],
    'a redirect': [answerBytes(302, { location: 'http://127.0.0.1:1/v1/models' }, ''), /redirects/],
    'a huge document': [
      answerBytes(200, JSON_TYPE, `{"data":[{"id":"a-1"}],"more":"${'x'.repeat(5_000_000)}"}`),
      /larger than 4 MiB/,
    ],
    'too many models': [
      answerJson({ data: entries(Array.from({ length: LISTED_MAX + 1 }, (_, i) => `a-${i}`)) }),
      /more than 2000 models/,
    ],
    'the same page again and again': [
      answerJson({ data: entries(['a-1']), has_more: true, last_id: 'a-1' }),
      /never ends/,
    ],
  };
  for (const [what, [script, why]] of Object.entries(NO_LISTS)) {
    test(`is none where there is ${what}`, async () => {
      upstream.script = script;
      const asked = await ask();
      assert.ok('why' in asked, JSON.stringify(asked));
      assert.match(asked.why, why);
      assert.ok(!JSON.stringify(asked).includes(KEY));
      assert.ok(upstream.lists.length <= 2);
    });
  }

  test('is none where there are always more pages', async () => {
    let page = 0;
    upstream.script = (exchange) => {
      page += 1;
      return answerJson({ data: entries([`a-${page}`]), has_more: true, last_id: `a-${page}` })(exchange);
    };
    assert.deepEqual(await ask(), { why: 'its list has more than 20 pages' });
    assert.equal(upstream.lists.length, 20);
  });

  test('is aborted after its timeout', async () => {
    // One of its own: requests that reach it late belong to no other test.
    await using slow = closing(await startUpstream(hang));
    const base_url = slow.url;
    assert.deepEqual(await ask(0.2, { base_url }), { why: 'no response within 0.2 seconds' });
    slow.script = ({ res }) => {
      res.writeHead(200, JSON_TYPE);
      res.write('{"data":[');
    };
    // On a busy machine the head may take longer.
    let asked: FetchedList | undefined;
    for (let seconds = 0.2; seconds < 30; seconds *= 2) {
      asked = await ask(seconds, { base_url });
      if (!('why' in asked) || !asked.why.startsWith('no response')) break;
    }
    assert.deepEqual(asked, { why: 'its list took too long' });
  });
});

test('yields only ids for any content of a page', () => {
  const value = fc.oneof(
    fc.json(),
    fc.string(),
    fc.json().map((text) => `{"data":[{"id":${text}}],"has_more":true,"last_id":${text}}`),
  );
  fc.assert(
    fc.property(value, (text) => {
      const page = readPage(Buffer.from(text));
      if (typeof page === 'string') return;
      assert.ok(page.ids.every(isModelId));
      assert.ok(page.after === undefined || isModelId(page.after));
    }),
    { numRuns: times(500) },
  );
});
