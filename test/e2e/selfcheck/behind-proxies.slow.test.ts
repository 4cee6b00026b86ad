/** Faults that proxies and company networks add to a correct gateway: each is found, and named correctly. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
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
import { openScene, type Report, type Scene } from './scene.ts';

interface Case {
  readonly behaviour: Behaviour;
  /** Checks that must fail, each with its expected text. */
  readonly named: Readonly<Record<string, RegExp>>;
  /** Beginnings of the checks that may fail as well; no others may. */
  readonly also?: readonly string[];
}

const EVERYTHING = [''];
const STREAMS = [
  'messages.stream',
  'forwarding.stream',
  'forwarding.stream_end',
  'forwarding.usage',
  'chat.stream',
  'responses.stream',
];
const BUFFERED = /keeps streams|held back|at once|in blocks/;

const CASES: Readonly<Record<string, Case>> = {
  'that sends callers to a login page': {
    behaviour: redirectsToLogin('https://id.example.com/login?return=%2Fv1'),
    named: { 'models.list': /redirect .*id\.example\.com/, 'messages.json': /redirect/ },
    also: EVERYTHING,
  },
  'that shows a login page': {
    behaviour: showsLoginPage,
    named: {
      'models.list': /Sign in - Example Corp/,
      'messages.json': /Sign in - Example Corp/,
      'forwarding.reached': /Sign in - Example Corp/,
    },
    also: EVERYTHING,
  },
  'that answers with an error page for want of a gateway': {
    behaviour: answersErrorPage(502),
    named: { 'models.list': /502/, 'messages.json': /502/ },
    also: EVERYTHING,
  },
  'that answers 200 to everything': {
    behaviour: answersOkToAll,
    named: { 'models.list': /./, 'messages.json': /./, 'models.no_token': /./ },
    also: EVERYTHING,
  },
  'that answers 200 and nothing': {
    behaviour: answersNothing,
    named: { 'models.list': /empty/, 'messages.json': /empty/ },
    also: EVERYTHING,
  },
  'that keeps streams until they are complete': {
    behaviour: buffersWhole,
    named: { 'forwarding.stream': BUFFERED },
    also: STREAMS,
  },
  'that passes streams on in blocks': {
    behaviour: buffersInBlocks(4096),
    named: { 'forwarding.stream': BUFFERED },
    also: STREAMS,
  },
  'that compresses streams': {
    behaviour: compresses,
    named: { 'forwarding.stream': BUFFERED },
    also: STREAMS,
  },
  'that cuts streams': {
    behaviour: cutsStreamsAfter(1000),
    named: { 'messages.stream': /broke off|cut/ },
    also: STREAMS,
  },
  'that takes version and beta headers off': {
    behaviour: stripsHeaders('vendor-', 'anthropic-'),
    named: { 'forwarding.headers': /vendor-version/ },
    also: ['forwarding.'],
  },
  'that sets an old version': {
    behaviour: setsHeader('vendor-version', '2020-01-01'),
    named: { 'forwarding.headers': /2020-01-01/ },
    also: ['forwarding.'],
  },
  'that takes the token off': {
    behaviour: stripsHeaders('authorization', 'x-api-key'),
    named: { 'models.list': /401/ },
    also: EVERYTHING,
  },
  'that writes bodies anew': {
    behaviour: rewritesJson(),
    named: { 'forwarding.messages_body': /serialised again|instead of/ },
    also: ['forwarding.'],
  },
  'that drops fields it does not know': {
    behaviour: rewritesJson(({ model, max_tokens, messages, stream, system, tools, input }) => ({
      ...{ model, max_tokens, messages, stream, system, tools, input },
    })),
    named: { 'forwarding.messages_body': /missing/ },
    also: ['forwarding.', 'chat.', 'responses.'],
  },
  'that puts pages in place of errors': {
    behaviour: replacesErrors,
    named: { 'models.no_token': /page/, 'messages.error': /page/ },
    also: ['models.', 'messages.', 'chat.error', 'responses.error', 'forwarding.errors'],
  },
};

const HARMLESS: Readonly<Record<string, Behaviour>> = {
  'that changes nothing': passesOn,
  'that says the charset and writes headers in capitals': saysCharset,
  'that compresses documents for clients that take it': compressesDocuments,
};

let scene: Scene;
/** By the behaviour of the proxy. Streams are slow, so that all are checked at once. */
const reports = new Map<string, Promise<Report>>();
before(async () => {
  const behaviours = Object.entries(CASES).map(([name, { behaviour }]) => [name, behaviour] as const);
  const proxies = [...behaviours, ...Object.entries(HARMLESS)];
  scene = await openScene(Object.fromEntries(proxies.map((_, i) => [`m-${i}`, 'messages'])));
  for (const [i, [name, behaviour]] of proxies.entries()) {
    const report = checkBehind(behaviour, i);
    // The test of it fails.
    report.catch(() => {});
    reports.set(name, report);
  }
});
after(async () => {
  await Promise.allSettled(reports.values());
  await scene?.close();
});

async function checkBehind(behaviour: Behaviour, number: number): Promise<Report> {
  const proxy = await startProxy(scene.gateway.url, behaviour);
  try {
    return await scene.check(`m-${number}`, { base_url: proxy.url, arguments: ['--strict'] });
  } finally {
    await proxy.close();
  }
}

describe('a gateway behind a proxy', () => {
  for (const [name, { named, also = [] }] of Object.entries(CASES)) {
    test(`${name} does not pass, and the proxy is named`, async () => {
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

  for (const name of Object.keys(HARMLESS)) {
    test(`${name} passes`, async () => {
      const { exit_code, having, stdout } = await reports.get(name)!;
      assert.deepEqual([...having('failed'), ...having('warning')], [], stdout);
      assert.equal(exit_code, 0);
    });
  }
});
