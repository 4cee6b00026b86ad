import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { openModelLists } from '../../../engine/upstreams/lists/model-lists.ts';
import { collectingLog } from '../../cli/support.ts';
import { answerJson, type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';

const KEY = 'upstream-key-5f3a9c17';
const listOf = (...ids: readonly string[]) => answerJson({ data: ids.map((id) => ({ id })) });
const LISTED = 'claude-sonnet-4-5-20250929';
const MINUTE = 60_000;

let upstream: ScriptedUpstream;
before(async () => {
  upstream = await startUpstream();
});
after(() => upstream.close());
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
    assert.equal(lists.has('main', LISTED), undefined, 'nothing was asked yet');
    await use();
    for (const id of [LISTED, 'claude-sonnet-4-5', 'claude-sonnet-4-5-latest', 'coder-1'])
      assert.equal(lists.has('main', id), true, id);
    for (const id of ['claude-opus-4-5', 'coder-2', '__proto__']) assert.equal(lists.has('main', id), false, id);
    // All of these the catalogue takes for the model that is listed.
    for (const more of ['evil', ':free', '/../x', '%2f', '-20250929-fast'])
      assert.equal(lists.has('main', `claude-sonnet-4-5${more}`), false, more);
    for (const id of ['CLAUDE-SONNET-4-5', 'anthropic/claude-sonnet-4-5'])
      assert.equal(lists.has('main', id), false, id);
    assert.equal(lists.has('other', LISTED), undefined);
    assert.deepEqual(lists.ids('main'), [LISTED], 'without a price nothing is served');
    lists.close();
  });

  test('tell of a model what is said of the id that is listed, also by another name of it', async () => {
    upstream.script = answerJson({ data: [{ id: LISTED, max_tokens: 64_000 }, { id: 'claude-haiku-4-5' }] });
    const { lists, use } = open();
    assert.equal(lists.told('main', LISTED), undefined, 'nothing was asked yet');
    await use();
    for (const id of [LISTED, 'claude-sonnet-4-5'])
      assert.deepEqual(lists.told('main', id), { max_tokens: 64_000 }, id);
    for (const id of ['claude-haiku-4-5', 'claude-opus-4-5', '__proto__'])
      assert.equal(lists.told('main', id), undefined, id);
    lists.close();
  });

  test('are asked for again every ten minutes, and tell what has changed', async () => {
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
    lists.close();
  });

  test('are asked for every minute where there is none, which is told once', async () => {
    upstream.script = answerJson({}, 404);
    const { lists, clock, lines, use } = open();
    await use();
    for (let asked = 2; asked < 5; asked++) {
      clock.advance(MINUTE);
      await until('it is waited for again', () => upstream.lists.length === asked && clock.next() !== undefined);
    }
    assert.equal(lists.has('main', LISTED), undefined);
    assert.deepEqual(
      lines.map(({ upstream, why }) => [upstream, why]),
      [['main', 'it answers with status 404']],
    );
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
    await until('it is asked', () => arrived);
    lists.close();
    await lists.attempted();
    assert.deepEqual(lines, []);
    assert.equal(clock.next(), undefined);
  });
});
