/** What `appscli doctor --config` says of the console's sign-in page, as it is met at the public URL. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { CheckResult } from '../../../engine/base/contract/checks.ts';
import { cli } from '../../cli/support.ts';
import { freePort } from '../../support/free-port.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import {
  answersErrorPage,
  only,
  passesOn,
  redirectsToLogin,
  showsLoginPage,
} from '../../support/proxies/behaviours.ts';
import { type Behaviour, type Proxy as FrontProxy, startProxy } from '../../support/proxies/proxy.ts';

let provider: TestIdentityProvider;
let gateway: TestGateway;
let proxy: FrontProxy;

before(async () => {
  provider = await startIdentityProvider();
  const listen = `127.0.0.1:${await freePort()}`;
  proxy = await startProxy(`http://${listen}`, passesOn);
  gateway = await bootSignIn({ provider, public_url: proxy.url, server: { listen } });
});
after(async () => {
  await gateway?.close();
  await proxy?.close();
  await provider?.close();
});

const redirectsTo =
  (to: (path: string) => string): Behaviour =>
  ({ request, res }) =>
    void res.writeHead(302, { location: to(request.url!) }).end();

const LOOP = /got a redirect \(status 302\) to http.*\/console\/sign-in/;
const CASES: Readonly<
  Record<string, { readonly behaviour: Behaviour; readonly verdict: string; readonly says: RegExp }>
> = {
  'passes everything on': { behaviour: passesOn, verdict: 'ok', says: /redirects to the identity provider at http:/ },
  'redirects to what was asked for': {
    behaviour: redirectsTo((path) => `${proxy.url}${path}`),
    verdict: 'failed',
    says: LOOP,
  },
  'asks for a sign-in of its own': {
    behaviour: redirectsToLogin('https://sso.example.com/login?to=secret'),
    verdict: 'failed',
    says: /redirect \(status 302\) to https:\/\/sso\.example\.com\/login/,
  },
  'shows a page of its own': { behaviour: showsLoginPage, verdict: 'failed', says: /web page "Sign in/ },
  'has nothing behind it': { behaviour: answersErrorPage(502), verdict: 'failed', says: /502 Bad Gateway/ },
  'leads to the gateway of another address': {
    behaviour: redirectsTo(
      () => 'https://id.example.com/authorize?client_id=a&redirect_uri=https%3A%2F%2Fb.example%2Fc',
    ),
    verdict: 'failed',
    says: /the redirect URI https:\/\/b\.example\/c is not below/,
  },
};

for (const [name, { behaviour, verdict, says }] of Object.entries(CASES)) {
  test(`a proxy that ${name} at the sign-in page: ${verdict}`, async () => {
    proxy.behaviour = only(/^\/console\/sign-in/, behaviour);
    const env = { ...process.env, ...gateway.env, PATH: '/nowhere' };
    const { stdout } = await cli(['doctor', '--config', gateway.config_file, '--json'], { env });
    const { checks } = JSON.parse(stdout) as { checks: CheckResult[] };
    const result = checks.find(({ id }) => id === 'public_url.sign_in')!;
    assert.equal(result.verdict, verdict, result.found);
    assert.match(result.found, says);
    assert.equal(result.remedy === undefined, verdict === 'ok');
    assert.doesNotMatch(JSON.stringify(result), /secret|state=/);
  });
}
