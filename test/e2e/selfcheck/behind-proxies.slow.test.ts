/** Faults that proxies and company networks add to a correct gateway: each is found, and named correctly. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import {
  answersErrorPage,
  answersNothing,
  answersOkToAll,
  buffersInBlocks,
  buffersWhole,
  compresses,
  compressesDocuments,
  cutsStreamsAfter,
  passesOn,
  redirectsToLogin,
  replacesErrors,
  rewritesJson,
  saysCharset,
  setsHeader,
  showsLoginPage,
  stripsHeaders,
} from '../../support/proxies/behaviours.ts';
import { type Behaviour, startProxy } from '../../support/proxies/proxy.ts';
import { closing, use } from '../../support/use.ts';
import { openScene, type Report } from './scene.ts';

/** What a proxy does; checks that must fail, each with its expected text; beginnings of those that may fail as well. */
type Case = readonly [name: string, Behaviour, named: Readonly<Record<string, RegExp>>, also: readonly string[]];

const ALL = [''];
const STREAMS = [...['messages', 'forwarding', 'chat', 'responses'].map((id) => `${id}.stream`), 'forwarding.usage'];
const BUFFERED = /keeps streams|held back|at once|in blocks/;

const CASES: readonly Case[] = [
  [
    'sends callers to a login page',
    redirectsToLogin('https://id.example.com/login?return=%2Fv1'),
    { 'models.list': /redirect .*id\.example\.com/, 'messages.json': /redirect/ },
    ALL,
  ],
  [
    'shows a login page',
    showsLoginPage,
    {
      'models.list': /Sign in - Example Corp/,
      'messages.json': /Sign in - Example Corp/,
      'forwarding.reached': /Sign in - Example Corp/,
    },
    ALL,
  ],
  [
    'answers with an error page for want of a gateway',
    answersErrorPage(502),
    { 'models.list': /502/, 'messages.json': /502/ },
    ALL,
  ],
  [
    'answers 200 to everything',
    answersOkToAll,
    { 'models.list': /./, 'messages.json': /./, 'models.no_token': /./ },
    ALL,
  ],
  ['answers 200 and nothing', answersNothing, { 'models.list': /empty/, 'messages.json': /empty/ }, ALL],
  ['keeps streams until they are complete', buffersWhole, { 'forwarding.stream': BUFFERED }, STREAMS],
  ['passes streams on in blocks', buffersInBlocks(4096), { 'forwarding.stream': BUFFERED }, STREAMS],
  ['compresses streams', compresses, { 'forwarding.stream': BUFFERED }, STREAMS],
  ['cuts streams', cutsStreamsAfter(1000), { 'messages.stream': /broke off|cut/ }, STREAMS],
  [
    'takes version and beta headers off',
    stripsHeaders('vendor-', 'anthropic-'),
    { 'forwarding.headers': /vendor-version/ },
    ['forwarding.'],
  ],
  [
    'sets an old version',
    setsHeader('vendor-version', '2020-01-01'),
    { 'forwarding.headers': /2020-01-01/ },
    ['forwarding.'],
  ],
  ['takes the token off', stripsHeaders('authorization', 'x-api-key'), { 'models.list': /401/ }, ALL],
  [
    'writes bodies anew',
    rewritesJson(),
    { 'forwarding.messages_body': /serialised again|instead of/ },
    ['forwarding.'],
  ],
  [
    'drops fields it does not know',
    rewritesJson(({ model, max_tokens, messages, stream, system, tools, input }) => ({
      ...{ model, max_tokens, messages, stream, system, tools, input },
    })),
    { 'forwarding.messages_body': /missing/ },
    ['forwarding.', 'chat.', 'responses.'],
  ],
  [
    'puts pages in place of errors',
    replacesErrors,
    { 'models.no_token': /page/, 'messages.error': /page/ },
    ['models.', 'messages.', 'chat.error', 'responses.error', 'forwarding.errors'],
  ],
];

const HARMLESS: readonly (readonly [name: string, Behaviour])[] = [
  ['changes nothing', passesOn],
  ['says the charset and writes headers in capitals', saysCharset],
  ['compresses documents for clients that take it', compressesDocuments],
];

const PROXIES = [...CASES, ...HARMLESS];
/** By the behaviour of the proxy. Streams are slow, so that all are checked at once. */
const reports = new Map<string, Promise<Report>>();
const scene = use(
  () => openScene(Object.fromEntries(PROXIES.map((_, i) => [`m-${i}`, 'messages']))),
  async (opened) => {
    await Promise.allSettled(reports.values());
    await opened.close();
  },
);
before(() => {
  for (const [i, [name, behaviour]] of PROXIES.entries()) {
    const report = checkBehind(behaviour, i);
    report.catch(() => {});
    reports.set(name, report);
  }
});

async function checkBehind(behaviour: Behaviour, number: number): Promise<Report> {
  await using proxy = closing(await startProxy(scene.gateway.url, behaviour));
  return await scene.check(`m-${number}`, { base_url: proxy.url, arguments: ['--strict'] });
}

describe('a gateway behind a proxy', () => {
  for (const [name, , named, also] of CASES) {
    test(`that ${name} does not pass, and the proxy is named`, async () => {
      const { checks, exit_code, having, stdout } = await reports.get(name)!;
      assert.equal(exit_code, 1, stdout);
      for (const [id, said] of Object.entries(named)) {
        const { verdict, found, remedy } = checks.get(id)!;
        assert.match(verdict, /^(failed|warning)$/, `${id}: ${found}`);
        assert.match(found, said, id);
        assert.ok(remedy, `${id} says what to do`);
      }
      const allowed = [...Object.keys(named), ...also];
      const others = having('failed').filter((id) => !allowed.some((beginning) => id.startsWith(beginning)));
      assert.deepEqual(others, [], stdout);
    });
  }

  for (const [name] of HARMLESS) {
    test(`that ${name} passes`, async () => {
      const { exit_code, having, stdout } = await reports.get(name)!;
      assert.deepEqual([...having('failed'), ...having('warning')], [], stdout);
      assert.equal(exit_code, 0);
    });
  }
});
