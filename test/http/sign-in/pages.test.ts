import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  confirmPage,
  deniedPage,
  enterCodePage,
  errorPage,
  layout,
  type Page,
  pageHeaders,
} from '../../../engine/edge/http/sign-in/pages.ts';
import { anyText } from '../../support/any-text.ts';
import { everyPage, NOW, sampleGrant } from './sample-pages.ts';

/** The markup of a page. */
const shown = <Options>(page: (options: Options) => Page, options: Options) => layout(page(options));

/** The markup without the texts: tags with their attributes' names, in order. */
function skeleton(page: string): string {
  return (page.match(/<[^>]*>/g) ?? []).join('').replace(/"[^"]*"/g, '""');
}

describe('every page of sign-in', () => {
  for (const [name, page] of Object.entries(everyPage())) {
    it(`${name} is a whole document, without script, handler, style attribute or external resource`, () => {
      assert.match(page, /^<!doctype html>\n<html lang="en">/);
      assert.match(page, /<title>[^<]+ · Model gateway<\/title>/);
      assert.equal(page.match(/<h1>/g)?.length, 1);
      assert.equal(page.match(/<main>/g)?.length, 1);
      assert.doesNotMatch(page, /<script|javascript:|\son\w+=|\sstyle=|@import|url\(/i);
      const links = [...page.matchAll(/\s(?:href|src|action)="([^"]*)"/g)].map((match) => match[1] ?? '');
      for (const link of links)
        assert.match(link, /^(?:data:image\/svg|(?:\.\.)?\/?device(?:\?|$)|https:\/\/gateway\.example\.com\/)/);
    });
  }

  it('has the same markup for any texts', () => {
    const plain = everyPage();
    fc.assert(
      fc.property(
        fc.oneof(anyText({ minLength: 1 }), fc.string({ unit: fc.constantFrom(...'<>"\'&/=- ax`'), minLength: 1 })),
        (text) => {
          for (const [name, page] of Object.entries(everyPage(text))) {
            assert.equal(skeleton(page), skeleton(plain[name] ?? ''), name);
          }
        },
      ),
    );
  });
});

describe('the page that asks whether a sign-in is yours', () => {
  it('says how long ago it began in words, also when the clocks of two replicas differ', () => {
    const page = (now: string) => shown(confirmPage, { grant: sampleGrant(), now: new Date(now) });
    assert.match(page('2026-11-21T14:04:58Z'), /less than a minute ago/);
    assert.match(page('2026-11-21T14:06:59Z'), /a minute ago/);
    assert.match(page('2026-11-21T14:14:00Z'), /9 minutes ago/);
  });

  it('shows when the program sent no name, and shows the notice of the organisation', () => {
    assert.match(shown(confirmPage, { grant: sampleGrant({ client: '' }), now: NOW }), /<dd>Unknown</);
    const noticed = shown(confirmPage, { grant: sampleGrant(), now: NOW, login_notice: 'Use is logged.' });
    assert.match(noticed, /<aside class="notice" aria-label="Notice">Use is logged\.<\/aside>/);
    assert.doesNotMatch(shown(confirmPage, { grant: sampleGrant(), now: NOW }), /<aside/);
  });
});

describe('other pages', () => {
  it('accept a code as people type it, and only that', () => {
    const [, pattern = ''] = / pattern="([^"]+)"/.exec(shown(enterCodePage, {})) ?? [];
    const accepted = new RegExp(`^(?:${pattern})$`, 'v');
    for (const code of ['WDJB-MJHT', 'wdjbmjht', ' wdjb mjht ', 'W D J B – M J H T']) assert.match(code, accepted);
    for (const code of ['', 'WDJB', 'WDJB-MJH1', 'WDJB-MJHTX']) assert.doesNotMatch(code, accepted);
  });

  it('show what to do, and what to report to the administrator', () => {
    const reference = { request_id: 'req_1', at: NOW };
    assert.match(shown(deniedPage, { reason: 'Not in a group.' }), /The sign-in in your terminal has ended too/);
    const page = layout(errorPage({ title: 'No answer', sentence: 'It was silent.', advice: 'Try again.' }, reference));
    assert.match(page, /request req_1, <time datetime="2026-11-21T14:07:10\.000Z">2026-11-21 14:07 UTC</);
    assert.doesNotMatch(page, /<a /);
  });
});

describe('the headers of a page', () => {
  const policy = pageHeaders('https://login.example.com')['content-security-policy'] ?? '';

  it('allow the style that is inside every page, and no other', () => {
    for (const page of Object.values(everyPage())) {
      const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(page) ?? [];
      const hash = createHash('sha256').update(style).digest('base64');
      assert.ok(policy.includes(`style-src 'sha256-${hash}';`));
    }
  });

  it('allow nothing else but a form that ends at the identity provider', () => {
    assert.match(policy, /^default-src 'none'; /);
    assert.match(policy, /form-action 'self' https: https:\/\/login\.example\.com;/);
    assert.match(policy, /base-uri 'none'; frame-ancestors 'none'$/);
    assert.doesNotMatch(policy, /unsafe|script-src|\*/);
  });

  it("use only the origin of the provider's address, where there is one", () => {
    const other = pageHeaders('http://127.0.0.1:4000/path; script-src *')['content-security-policy'] ?? '';
    assert.match(other, /form-action 'self' https: http:\/\/127\.0\.0\.1:4000;/);
    assert.doesNotMatch(other, /script-src/);
    assert.match(pageHeaders()['content-security-policy'] ?? '', /form-action 'self' https:;/);
  });
});
