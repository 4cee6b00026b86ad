import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { SignInScopes } from './scopes.ts';

/** Secrets of a browser's sign-in: random, single use, kept in that browser only. */
export interface SignInAttempt {
  readonly state: string;
  readonly nonce: string;
  readonly code_verifier: string;
}

/** What the identity provider says about a person: the claims of the ID token, completed from the userinfo endpoint. */
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

/** The identity provider of a configuration. It is not contacted before the first call. */
export interface IdentityProvider {
  /** The URL for the browser; `other_account` asks for a choice of account, even in a signed-in browser. */
  authorizationUrl(attempt: SignInAttempt, how?: { readonly other_account: boolean }): Promise<URL>;
  /** Completes a sign-in by the redirect URI with the query of the browser. */
  identify(callback: URL, attempt: SignInAttempt): Promise<Identified>;
  /** Checks a person without a browser; `refused`, or `unaskable` if they must sign in for other reasons. */
  recheck(grant: ProviderGrant): Promise<Identified>;
  /** Resolves when the provider answers a new request. Raises ProviderError. */
  reach(): Promise<void>;
  /** Revokes a grant (RFC 7009); false without a token or a revocation endpoint. */
  revoke(grant: ProviderGrant): Promise<boolean>;
  /** The sign-out URL of the provider; `undefined` without one. Raises ProviderError. */
  signOutUrl(): Promise<URL | undefined>;
}

/**
 * Why the identity provider gave no usable answer. `unavailable`: down, silent or failing; retry. `refused`: it refuses the person.
 * `unaskable`: there is no usable grant. `invalid`: its response, or the registration of the gateway, must be fixed.
 */
export type ProviderProblem = 'unavailable' | 'refused' | 'unaskable' | 'invalid';

/** The identity provider gave no usable answer. The message is for the log, without secrets. */
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
