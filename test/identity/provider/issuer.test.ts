import assert from 'node:assert/strict';
import { test } from 'node:test';
import { issuerOf, redirectUriOf } from '../../../engine/identity/provider/issuer.ts';

const at = (public_url: string) => ({ server: { public_url } }) as Parameters<typeof issuerOf>[0];

test('the issuer is the public URL as it is written, without a slash at its end', () => {
  assert.equal(issuerOf(at('https://gateway.example.com/')), 'https://gateway.example.com');
  assert.equal(issuerOf(at('https://example.com/gateway//')), 'https://example.com/gateway');
});

test('the redirect URI is the same text wherever it is sent, however the public URL is written', () => {
  const expected = 'https://gateway.example.com/base/oauth/callback';
  for (const url of ['https://gateway.example.com/base', 'https://Gateway.Example.com:443/base/']) {
    assert.equal(redirectUriOf(at(url)), expected);
    // Whoever parses it and writes it again sends no other.
    assert.equal(new URL(redirectUriOf(at(url))).href, expected);
  }
});
