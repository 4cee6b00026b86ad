import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { selfcheckRoute } from '../../engine/http/selfcheck/selfcheck-route.ts';
import { systemClock } from '../../engine/kit/clock.ts';
import { exchange } from '../../engine/kit/net/exchange.ts';
import { type PathSubject, probeHeaders, probeLargeBody, probeStream } from '../../engine/selfcheck/path/probes.ts';
import { readArrived, readStreamedArrived } from '../../engine/selfcheck/path/read-arrived.ts';
import { serve, signInConfig } from '../http/sign-in/support.ts';
import {
  answersErrorPage,
  answersOkToAll,
  buffersInBlocks,
  buffersWhole,
  compresses,
  compressesDocuments,
  cutsStreamsAfter,
  passesOn,
  redirectsToLogin,
  rewritesJson,
  saysCharset,
  setsHeader,
  showsLoginPage,
  stripsHeaders,
  takesUpTo,
} from '../support/proxies/behaviours.ts';
import { type Behaviour, startProxy } from '../support/proxies/proxy.ts';
import { quietLog } from '../support/store.ts';
import { times } from '../support/times.ts';

const TOKEN = 'gw_a-token-for-tests';
let served: Awaited<ReturnType<typeof serve>>;
const proxies: Awaited<ReturnType<typeof startProxy>>[] = [];

before(async () => {
  const timeouts = { request_body_seconds: 30, request_silence_seconds: 30 };
  const config = signInConfig({ server: { timeouts, limits: { body_bytes: 8_000_000 } } });
  let callers = 0;
  served = await serve(
    selfcheckRoute({
      config,
      // As many callers as requests: how much one of them may ask is not what is tested here.
      verify: async () => ({ id: String(callers++) }) as never,
      clock: systemClock,
      log: quietLog,
      telemetry: { requestRejected() {} },
    }),
  );
});

after(async () => {
  await Promise.all(proxies.map((proxy) => proxy.close()));
  await served?.close();
});

/** The gateway, seen through a proxy. */
async function behind(behaviour: Behaviour): Promise<PathSubject> {
  const proxy = await startProxy(served.url, behaviour);
  proxies.push(proxy);
  return {
    header_prefixes: ['vendor', 'other'],
    ask: ({ path, body, method = 'GET', headers = {}, seconds = 30 }) =>
      exchange(`${proxy.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', ...headers },
        ...(body === undefined ? {} : { body }),
        seconds,
      }),
  };
}

const dropsQuery: Behaviour = (passage) => {
  passage.request.url = passage.request.url!.replace(/\?.*/, '');
  return passesOn(passage);
};

describe('headers and bodies on the way', () => {
  test('are fine behind a proxy that changes nothing that matters', async () => {
    for (const behaviour of [passesOn, saysCharset, compressesDocuments, buffersWhole]) {
      const { verdict, found } = await probeHeaders(await behind(behaviour));
      assert.equal(verdict, 'ok', found);
    }
  });

  const faults: readonly (readonly [name: string, Behaviour, RegExp])[] = [
    ['taken off by their beginning', stripsHeaders('vendor-'), /the header vendor-version is taken off, and 1 more$/],
    ['taken off one by one', stripsHeaders('other-beta'), /the header other-beta is taken off$/],
    [
      'set to an older value',
      setsHeader('vendor-version', '2020-01-01'),
      /vendor-version was sent as "2023-06-01" and arrived as "2020-01-01"/,
    ],
    ['unknown', stripsHeaders('x-selfcheck-'), /the header x-selfcheck-probe is taken off/],
    ['with bodies that are written anew', rewritesJson(), /the body was rewritten/],
    ['with a query that is lost', dropsQuery, /the query "beta=true&check=a%20b%2Fc" arrived as ""/],
  ];
  for (const [name, behaviour, expected] of faults) {
    test(`are a fault where they are ${name}`, async () => {
      const { verdict, found, remedy } = await probeHeaders(await behind(behaviour));
      assert.equal(verdict, 'failed');
      assert.match(found, expected);
      assert.match(remedy ?? '', /^let the proxy/);
    });
  }

  test('are a warning where only the name of the client is another', async () => {
    const { verdict, found } = await probeHeaders(await behind(setsHeader('user-agent', 'proxy/1')));
    assert.equal(verdict, 'warning');
    assert.match(found, /user-agent was sent as/);
  });

  test('are not told where something else answers, which is no fault', async () => {
    const others = [
      answersErrorPage(403),
      answersErrorPage(502),
      answersOkToAll,
      showsLoginPage,
      redirectsToLogin('https://id.example.com/'),
    ];
    for (const behaviour of others) {
      const subject = await behind(behaviour);
      for (const probe of [probeHeaders, probeStream, probeLargeBody]) {
        const { verdict, found } = await probe(subject);
        assert.equal(verdict, 'skipped');
        // Whoever answered was no gateway that has an opinion of the token.
        assert.doesNotMatch(found, /token is refused|no room/);
      }
    }
  });

  test('are told to lose the token where a proxy takes it off, and where it is refused that is all that is known', async () => {
    const lost = await probeHeaders(await behind(stripsHeaders('authorization')));
    assert.equal(lost.verdict, 'failed');
    assert.match(lost.found, /^the token does not arrive/);
    const refuses: Behaviour = ({ res }) => {
      res.writeHead(401, { 'content-type': 'application/json' });
      res.end('{"error": {"type": "authentication_error", "message": "Expired yesterday."}}');
    };
    const refused = await probeHeaders(await behind(refuses));
    assert.equal(refused.verdict, 'skipped');
    assert.match(refused.found, /the token is refused .*Expired yesterday/);
  });
});

describe('streams on the way', { concurrency: true }, () => {
  const cases: readonly (readonly [name: string, Behaviour, verdict: string, RegExp])[] = [
    ['passed on as they are', passesOn, 'ok', /one by one/],
    ['kept until they are complete', buffersWhole, 'failed', /keeps streams until they are complete/],
    ['passed on in blocks of 4 KiB', buffersInBlocks(4096), 'failed', /keeps streams/],
    ['passed on in blocks of 700 bytes', buffersInBlocks(700), 'failed', /keeps streams/],
    ['compressed', compresses, 'failed', /compressed \(gzip\) on the way, and held back/],
    ['cut', cutsStreamsAfter(900), 'failed', /broke off/],
  ];
  for (const [name, behaviour, verdict, expected] of cases) {
    test(`are told from others where they are ${name}`, async () => {
      const outcome = await probeStream(await behind(behaviour));
      assert.match(outcome.found, expected);
      assert.equal(outcome.verdict, verdict);
      assert.equal(outcome.remedy === undefined, verdict === 'ok');
    });
  }
});

describe('large requests on the way', () => {
  test('arrive whole where they may', async () => {
    const { verdict, found } = await probeLargeBody(await behind(passesOn));
    assert.equal(verdict, 'ok', found);
  });

  test('are a fault where a proxy refuses them', async () => {
    const { verdict, found, remedy } = await probeLargeBody(await behind(takesUpTo(1_048_576)));
    assert.equal(verdict, 'failed');
    assert.match(found, /something on the way refuses requests of 2 MiB with status 413/);
    assert.match(remedy ?? '', /client_max_body_size/);
  });

  test('are a fault where the connection is cut for them', async () => {
    const cuts: Behaviour = (passage) =>
      passage.body.length > 1_000_000 ? void passage.res.destroy() : passesOn(passage);
    const { verdict, found } = await probeLargeBody(await behind(cuts));
    assert.equal(verdict, 'failed');
    assert.match(found, /the connection was cut/);
  });
});

test('whatever comes in place of what arrived is taken for something else, and never raises', () => {
  const parts = fc.record({ type: fc.constant('selfcheck.arrived'), headers: fc.jsonValue(), body: fc.jsonValue() });
  fc.assert(
    fc.property(fc.oneof(fc.jsonValue(), parts), (json) => {
      const text = `event: selfcheck.arrived\ndata: ${JSON.stringify(json)}\n\n`;
      return (
        readArrived({ status: 200, json }) === undefined && readStreamedArrived({ status: 200, text }) === undefined
      );
    }),
    { numRuns: times(300) },
  );
});
