import type { Token } from '../../api/operations.ts';
import type { Tone } from '../../parts/badge.tsx';

/** How long new tokens may live. */
export const LIVES = [
  { value: String(30 * 86_400), text: '30 days' },
  { value: String(90 * 86_400), text: '90 days' },
  { value: String(365 * 86_400), text: 'a year' },
] as const;

/** How long a token that was replaced works on. */
export const OVERLAPS = [
  { value: '86400', text: 'for a day' },
  { value: '3600', text: 'for an hour' },
  { value: '604800', text: 'for a week' },
  { value: '0', text: 'not at all: it leaked' },
] as const;

/** Colours of states. */
export const TONES: Readonly<Record<string, Tone>> = {
  active: 'good',
  replaced: 'info',
  suspended: 'warn',
  unowned: 'warn',
  revoked: 'plain',
  expired: 'plain',
};

/** What a state means, where its word alone does not say. */
export const STATE_WORDS: Readonly<Partial<Record<Token['state'], string>>> = {
  replaced: 'Works until it expires; another has taken its place.',
  suspended: 'Refused until its owner signs in again.',
};

/** Whether a token can still be replaced or ended. */
export function isInForce({ state }: { readonly state: string }): boolean {
  return state !== 'revoked' && state !== 'expired';
}
