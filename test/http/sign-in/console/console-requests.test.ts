import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { it } from 'node:test';
import type { GatewayConfig } from '../../../../engine/base/contract/config.ts';
import { browserName, requireLocal, returnPath } from '../../../../engine/edge/http/sign-in/console.ts';

it('a browser is named by its name, its version and the system, and by nothing it makes up', () => {
  const chrome = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0';
  assert.equal(browserName(`${chrome} Safari/537.36`), 'Chrome 142 on Windows');
  assert.equal(browserName(`${chrome} Safari/537.36 Edg/142.0.0.0`), 'Edge 142 on Windows');
  assert.equal(
    browserName('Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'),
    'Firefox 140 on Linux',
  );
  const safari =
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1 Version/18.0 Mobile/15E148 Safari/604.1';
  assert.equal(browserName(safari), 'Safari 18 on iOS');
  assert.equal(browserName(), 'a browser');
  assert.equal(browserName('<script>alert(1)</script>\u202e'), 'a browser');
});

it('only this machine itself opens the console without a sign-in', () => {
  const config = (public_url: string) => ({ server: { public_url } }) as GatewayConfig;
  const ask = (remoteAddress: string | undefined, headers: object, public_url = 'http://127.0.0.1:8080') =>
    requireLocal(
      { headers: { host: '127.0.0.1:8080', ...headers }, socket: { remoteAddress } } as unknown as IncomingMessage,
      config(public_url),
    );
  for (const address of ['127.0.0.1', '127.8.9.1', '::1', '::ffff:127.0.0.1']) ask(address, {});
  const refused = { code: 'forbidden' };
  for (const address of ['192.0.2.1', '::ffff:192.0.2.1', '10.0.0.1', 'fe80::1', '127.evil', '', undefined]) {
    assert.throws(() => ask(address, {}), refused, address);
  }
  assert.throws(() => ask('127.0.0.1', { 'x-forwarded-for': '127.0.0.1' }), refused);
  assert.throws(() => ask('127.0.0.1', {}, 'https://gateway.example.com'), refused);
  for (const host of ['localhost:9000', '[::1]:8080']) ask('127.0.0.1', { host });
  for (const host of ['gateway.example.com', '127.0.0.1.evil.example', '127.0.0.1@evil.example', '', undefined]) {
    assert.throws(() => ask('127.0.0.1', { host }), refused, host);
  }
});

it('a target page is one of the console, also below the path of the public URL', () => {
  assert.equal(returnPath('/console/usage?by=user', ''), '/console/usage?by=user');
  assert.equal(returnPath('/models/console/usage?by=user', '/models'), '/console/usage?by=user');
  assert.equal(returnPath('/console', '/models'), '/console');
  const elsewhere = ['https://evil.example', '//evil.example/console', '/\\evil.example', '/console//evil.example'];
  const hostile = ['javascript:alert(1)', '/console/../../evil', '/console/%0d%0aset-cookie:x=y/..//', '/consoles'];
  const others = [undefined, '', '/', '/device', '/models/evil', '/console/sign-in', '/console/sign-out'];
  for (const other of [...others, ...elsewhere, ...hostile]) {
    assert.equal(returnPath(other, '/models'), '/console', other);
  }
});

it('a target page fits into a cookie, in any letters', () => {
  assert.equal(returnPath(`/console/usage?team=${'x'.repeat(900)}`, '').length, 920);
  assert.equal(returnPath(`/console/usage?team=${'\u20ac'.repeat(900)}`, ''), '/console');
});
