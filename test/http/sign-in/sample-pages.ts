import type { BrandingConfig } from '../../../engine/base/contract/config.ts';
import { frontPage } from '../../../engine/edge/http/sign-in/index.ts';
import {
  confirmPage,
  declinedPage,
  deniedPage,
  enterCodePage,
  errorPage,
  expiredPage,
  layout,
  signInOffPage,
  successPage,
} from '../../../engine/edge/http/sign-in/pages.ts';

/** When the sample pages are looked at. */
export const NOW = new Date('2026-11-21T14:07:10.000Z');

/** A grant as a page shows it; two minutes old at `NOW`. */
export function sampleGrant(more: { client?: string; client_address?: string; user_code?: string } = {}) {
  return {
    id: 'grant-1',
    user_code: 'WDJB-MJHT',
    client: 'appscli/0.1.0',
    client_address: '2001:db8:1:2::7',
    created_at: new Date('2026-11-21T14:05:00.000Z'),
    expires_at: new Date('2026-11-21T14:15:00.000Z'),
    ...more,
  };
}

/** Every page, with a text in each place that has one. */
export function everyPage(text = 'Somebody at example.com', branding?: BrandingConfig): Record<string, string> {
  const reference = { request_id: text, at: NOW };
  const again = { href: '/device?user_code=WDJB-MJHT', label: text };
  const pages = {
    'enter-code': enterCodePage(),
    'wrong-code': enterCodePage({ user_code: text, problem: text, login_notice: text }),
    confirm: confirmPage({
      grant: sampleGrant({ client: text, client_address: text, user_code: text }),
      now: NOW,
      login_notice: text,
    }),
    success: successPage({ email: text, client: text }),
    denied: deniedPage({ reason: text, advice: text, reference, user_code: text }),
    declined: declinedPage(),
    expired: expiredPage(),
    error: errorPage({ title: text, sentence: text, advice: text, again }, reference),
    'sign-in-off': signInOffPage(),
    front: frontPage('https://gateway.example.com', true),
    'front-without-sign-in': frontPage('https://gateway.example.com', false),
  };
  return Object.fromEntries(Object.entries(pages).map(([name, page]) => [name, layout(page, branding)]));
}
