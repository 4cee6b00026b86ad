/** What `appscli doctor --config` says of the console's sign-in page, as it is met at the public URL. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CheckResult } from '../../../engine/base/contract/checks.ts';
import { cli } from '../../cli/support.ts';
import { freePort } from '../../support/free-port.ts';
import { startIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import {
  answersErrorPage,
  only,
  passesOn,
  redirectsToLogin,
  showsLoginPage,
} from '../../support/proxies/behaviours.ts';
import { type Behaviour, startProxy } from '../../support/proxies/proxy.ts';
import { use } from '../../support/use.ts';

const provider = use(startIdentityProvider);
const listen = `127.0.0.1:${await freePort()}`;
const proxy = use(() => startProxy(`http://${listen}`, passesOn));
const gateway = use(() => bootSignIn({ provider, public_url: proxy.url, server: { listen } }));

const redirectsTo =
  (to: (path: string) => string): Behaviour =>
  ({ request, res }) =>
    void res.writeHead(302, { location: to(request.url!) }).end();

const LOOP = /got a redirect \(status 302\) to http.*\/console\/sign-in/;
const ELSEWHERE = 'https://id.example.com/authorize?client_id=a&redirect_uri=https%3A%2F%2Fb.example%2Fc';
const CASES: Readonly<Record<string, readonly [behaviour: Behaviour, says: RegExp, verdict?: string]>> = {
  'passes everything on': [passesOn, /redirects to the identity provider at http:/, 'ok'],
  'redirects to what was asked for': [redirectsTo((path) => `${proxy.url}${path}`), LOOP],
  'asks for a sign-in of its own': [
    redirectsToLogin('https://sso.example.com/login?to=secret'),
    /redirect \(status 302\) to https:\/\/sso\.example\.com\/login/,
  ],
  'shows a page of its own': [showsLoginPage, /web page "Sign in/],
  'has nothing behind it': [answersErrorPage(502), /502 Bad Gateway/],
  'leads to the gateway of another address': [
    redirectsTo(() => ELSEWHERE),
    /the redirect URI https:\/\/b\.example\/c is not below/,
  ],
};

for (const [name, [behaviour, says, verdict = 'failed']] of Object.entries(CASES)) {
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
