import type { ProviderError } from '../../identity/provider/provider.ts';
import type { PendingGrant } from '../../identity/sessions/device-grants.ts';
import { errorPage } from './pages/pages.ts';
import { DEVICE_PATH } from './paths.ts';
import { type Answer, logged, type SignIn, type Visit } from './routes.ts';

/** How a person goes on with a sign-in after trouble. */
export interface WayBack {
  readonly href: string;
  readonly label: string;
  /** A sentence about what waits; absent where nothing does. */
  readonly waiting?: string;
}

/** Back to a sign-in that still waits in a terminal. */
export function backTo({ issuer }: Pick<SignIn, 'issuer'>, { user_code }: PendingGrant): WayBack {
  const href = `${issuer}${DEVICE_PATH}?user_code=${encodeURIComponent(user_code)}`;
  return { href, label: 'Try again', waiting: 'The code in your terminal is still good.' };
}

/** Answers that the identity provider gave no usable answer, and logs why. The sign-in goes on waiting. */
export function providerTrouble(
  sign_in: Pick<SignIn, 'log'>,
  visit: Visit,
  again: WayBack,
  { problem, message }: ProviderError,
): Answer {
  // Only the message: what is behind it may quote an answer of the provider.
  const { reference } = visit;
  const fields = { reason: message, ...logged(visit) };
  if (problem === 'unavailable') {
    sign_in.log.warn(fields, 'the identity provider is not available: a sign-in has to wait');
    const page = errorPage({
      title: 'The identity provider does not answer',
      sentence: "Your company's sign-in is not available at the moment.",
      advice: ['Wait a moment, then try again.', again.waiting].join(' ').trim(),
      again,
      reference,
    });
    const told = { outcome: 'failed', error_type: 'provider_unavailable' } as const;
    return { status: 503, page, headers: { 'retry-after': '5' }, told };
  }
  sign_in.log.error(fields, 'the identity provider and the gateway do not understand each other: a sign-in failed');
  const page = errorPage({
    title: 'The identity provider gave no usable answer',
    sentence: "The gateway could not make sense of what your company's sign-in answered.",
    advice: 'Try again. If it happens again, tell your administrator; the log of the gateway says what is wrong.',
    again,
    reference,
  });
  return { status: 502, page, told: { outcome: 'failed', error_type: 'provider_invalid' } };
}
