import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { frontRoute } from '../../../engine/edge/http/sign-in/index.ts';
import { cli } from '../../cli/support.ts';
import { projectOfTest } from '../../load/support/project.ts';
import { quietLog } from '../../support/store.ts';
import { everyPage } from './sample-pages.ts';
import { signInConfig, whileServed } from './support.ts';

const clock = frozenClock('2026-11-21T12:00:00Z');
const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
const BRANDING = { name: 'Acme <AI> & Co', support_url: 'https://help.example.com/ai?a=1&b=2' };

const at = (config: GatewayConfig, headers: Record<string, string>) =>
  whileServed(frontRoute({ config, clock, log: quietLog }), (ask) => ask('GET', '/', { headers }));

describe('the root of a gateway', () => {
  const config = signInConfig({ public_url: 'https://example.com/gw/' });

  it('is a page in a browser, with instructions for sign-in and clients, below the public URL alone', async () => {
    const { status, headers, text } = await at(config, { ...BROWSER, host: 'evil.example.net' });
    assert.equal(status, 200);
    assert.equal(headers['content-type'], 'text/html; charset=utf-8');
    assert.equal(headers.vary, 'accept');
    assert.match(String(headers['content-security-policy']), /default-src 'none'.*frame-ancestors 'none'/);
    assert.match(text, /npx --yes https:\/\/example\.com\/gw\/client\.tgz login<\/code>/);
    assert.match(text, /<code>https:\/\/example\.com\/gw\/v1<\/code>/);
    const links = [...text.matchAll(/<a href="https:\/\/example\.com\/gw\/([^"]+)"/g)].map(([, href]) => href);
    assert.deepEqual(links, ['console', 'device', 'protocol']);
    assert.equal(text.match(/<a href/g)?.length, 3);
    assert.doesNotMatch(text, /evil|<script/);
  });

  it('is JSON for everything else', async () => {
    for (const accept of ['*/*', 'application/json', undefined]) {
      const response = await at(config, accept === undefined ? {} : { accept });
      assert.equal(response.status, 200);
      const root = 'https://example.com/gw';
      assert.deepEqual(response.json(), {
        ...{ status: 'ok', name: 'Model gateway', protocol: `${root}/protocol`, console: `${root}/console` },
        base_urls: { messages: root, chat_completions: `${root}/v1`, responses: `${root}/v1` },
        sign_in: `${root}/.well-known/oauth-authorization-server`,
      });
    }
  });

  it('shows that a token is required where sign-in is off', async () => {
    const { auth: _, ...bare } = signInConfig();
    const { text } = await at(bare as GatewayConfig, BROWSER);
    assert.match(text, /access token \(<code>gw_…<\/code>\)/);
    assert.doesNotMatch(text, /client\.tgz|\/device/);
  });
});

describe('branding', () => {
  it('gives pages their name and the way to help, whatever else is on them', async () => {
    const page = await at({ ...signInConfig(), branding: BRANDING }, BROWSER);
    const pages = Object.values(everyPage('</title></body>Model gateway', BRANDING));
    for (const text of [page.text, ...pages]) {
      assert.match(text, / · Acme &lt;AI&gt; &amp; Co<\/title>/);
      assert.match(text, /<span>Acme &lt;AI&gt; &amp; Co<\/span>/);
      assert.match(
        text,
        /<footer class="help"><a href="https:\/\/help\.example\.com\/ai\?a=1&amp;b=2" rel="noreferrer">Get help<\/a>/,
      );
      assert.equal(text.split('</body>').length, 2);
    }
    const json = (await at({ ...signInConfig(), branding: BRANDING }, {})).json();
    assert.deepEqual([json.name, json.support_url], [BRANDING.name, BRANDING.support_url]);
  });

  it('takes a page or an address to write to, and nothing that a browser would run', async () => {
    const check = async (branding: string) => {
      const project = projectOfTest({
        'gateway.yaml': `server: { listen: 127.0.0.1:8080, public_url: http://127.0.0.1:8080 }
upstreams: [{ name: main, base_url: "https://api.example.com", api_key_env: UPSTREAM_KEY }]
models: [{ id: coder-1, pricing: { input: 3, output: 15 } }]
routing: { default_upstream: main }
branding: ${branding}
`,
      });
      const env = { UPSTREAM_KEY: 'x' };
      return (await cli(['check', '--config', project.path('gateway.yaml')], { env })).exit_code;
    };
    for (const good of [
      '{ name: Acme AI }',
      '{ support_url: "https://help.example.com/x?y#z" }',
      '{ name: Ä, support_url: "mailto:ai@example.com" }',
    ]) {
      assert.equal(await check(good), 0, good);
    }
    for (const bad of [
      '{ name: "" }',
      '{ name: "a\\u202eb" }',
      '{ support_url: "javascript:alert(1)" }',
      '{ support_url: "http://help.example.com" }',
      '{ support_url: "https://user@help.example.com" }',
      '{ support_url: "data:text/html,x" }',
    ]) {
      assert.equal(await check(bad), 1, bad);
    }
  });
});
