import { randomBytes } from 'node:crypto';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { SignInScopes } from './scopes.ts';

/** Secrets of a browser's sign-in: random, single use, kept in that browser only. */
export interface SignInAttempt {
  readonly state: string;
  readonly nonce: string;
  readonly code_verifier: string;
}

export function newSignInAttempt(): SignInAttempt {
  const random = () => randomBytes(32).toString('base64url');
  return { state: random(), nonce: random(), code_verifier: random() };
}

/** Identity of a person from the provider: the claims of the ID token, completed from the userinfo endpoint. */
export type Claims = Readonly<Record<string, unknown>>;

/** Grant for later checks of a person. A secret: stored encrypted, never logged. Serializable as JSON. */
export interface ProviderGrant {
  readonly subject: string;
  readonly refresh_token?: string;
  readonly access_token?: string;
  /** Milliseconds since the epoch. */
  readonly access_token_expires_at?: number;
  /** Claims for admission that were in the ID token. */
  readonly in_id_token?: readonly string[];
}

export interface Identified {
  readonly claims: Claims;
  readonly grant: ProviderGrant;
  /** Absent without a new token. */
  readonly scopes?: SignInScopes;
}

/**
 * Why the identity provider gave no usable response. `unavailable`: down, silent or failing; retry. `refused`: it rejects the person.
 * `unaskable`: there is no usable grant. `invalid`: its response, or the registration of the gateway, must be fixed.
 */
export type ProviderProblem = 'unavailable' | 'refused' | 'unaskable' | 'invalid';

/** The identity provider gave no usable response. The message is for the log, without secrets. */
export class ProviderError extends Error {
  readonly problem: ProviderProblem;
  readonly error: string | undefined;
  /** Private, so that loggers do not print it. */
  readonly #grant: ProviderGrant | undefined;

  constructor(
    problem: ProviderProblem,
    message: string,
    more: { readonly grant?: ProviderGrant; readonly error?: string | undefined } = {},
  ) {
    super(message);
    this.name = 'ProviderError';
    this.problem = problem;
    this.error = more.error;
    this.#grant = more.grant;
  }

  /** The next grant, if the provider replaced the former one: it would treat the use of that as theft. */
  get grant(): ProviderGrant | undefined {
    return this.#grant;
  }
}

/** The public URL without a trailing slash: issuer and base of the sign-in endpoints. */
export function issuerOf({ server }: Pick<GatewayConfig, 'server'>): string {
  return server.public_url.replace(/\/+$/, '');
}

/** Path of the redirect URI below the public URL. */
export const CALLBACK_PATH = '/oauth/callback';

/** The redirect URI in normalized spelling: providers compare it byte by byte. */
export function redirectUriOf(config: Pick<GatewayConfig, 'server'>): string {
  return new URL(`${issuerOf(config)}${CALLBACK_PATH}`).href;
}
