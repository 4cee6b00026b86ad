import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { SignInScopes } from './scopes.ts';

/** What a browser's sign-in must come back with: random, used once, kept in that browser alone. */
export interface SignInAttempt {
  readonly state: string;
  readonly nonce: string;
  readonly code_verifier: string;
}

/** What the identity provider says about a person: the claims of the ID token, completed from the userinfo endpoint. */
export type Claims = Readonly<Record<string, unknown>>;

/** What it takes to ask about the same person again. A secret: kept sealed, never logged. Survives JSON. */
export interface ProviderGrant {
  readonly subject: string;
  readonly refresh_token?: string;
  readonly access_token?: string;
  /** Milliseconds since the epoch. */
  readonly access_token_expires_at?: number;
  /** Claims that decide about the person and were in the ID token. */
  readonly in_id_token?: readonly string[];
}

export interface Identified {
  readonly claims: Claims;
  readonly grant: ProviderGrant;
  /** Absent where no token was given anew. */
  readonly scopes?: SignInScopes;
}

/** The identity provider of one configuration. Nothing is asked of it before the first call. */
export interface IdentityProvider {
  /**
   * Where to send the browser. Raises ProviderError.
   * @param how.other_account has the provider ask who it is, also in a browser that is signed in there.
   */
  authorizationUrl(attempt: SignInAttempt, how?: { readonly other_account: boolean }): Promise<URL>;
  /**
   * Takes what the browser came back with.
   * @param callback the redirect URI with the query the browser brought. Raises ProviderError.
   */
  identify(callback: URL, attempt: SignInAttempt): Promise<Identified>;
  /**
   * Asks about a person again, without a browser. Raises ProviderError: `refused` when the person is not to be let in any
   * more, `unaskable` when they have to sign in again for other reasons.
   */
  recheck(grant: ProviderGrant): Promise<Identified>;
  /** Resolves when the provider answers at all, which is asked anew. Raises ProviderError. */
  reach(): Promise<void>;
  /**
   * Gives back what it takes to ask about a person (RFC 7009). Raises ProviderError.
   * @returns false when the provider has no endpoint for that, or there is nothing to give back.
   */
  revoke(grant: ProviderGrant): Promise<boolean>;
  /** Where a browser is signed out of the provider itself; `undefined` when the provider says nothing of that. Raises ProviderError. */
  signOutUrl(): Promise<URL | undefined>;
}

/**
 * Why the identity provider gave no answer. `unavailable`: it is down, silent or failing; try again. `refused`: it says no
 * to this person. `unaskable`: it gave nothing to ask about this person with. `invalid`: its answer, or the gateway's
 * registration there, is wrong; somebody must mend it.
 */
export type ProviderProblem = 'unavailable' | 'refused' | 'unaskable' | 'invalid';

/** The identity provider gave no usable answer. The message is for the log, and holds no secret. */
export class ProviderError extends Error {
  readonly problem: ProviderProblem;
  /** The error as the provider names it (RFC 6749 section 5.2), where it does. */
  readonly error: string | undefined;
  /** Private, and so in no log. */
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

  /**
   * What to ask with next time instead of what was asked with: the provider had already replaced that before something
   * failed, and would take its use for theft.
   */
  get grant(): ProviderGrant | undefined {
    return this.#grant;
  }
}

/** The public URL without a trailing slash: what sign-in calls itself, and what its endpoints begin with. */
export function issuerOf({ server }: Pick<GatewayConfig, 'server'>): string {
  return server.public_url.replace(/\/+$/, '');
}

/** Where the identity provider sends browsers back to, below the public URL. */
export const CALLBACK_PATH = '/oauth/callback';

/** The same as a URL, written in the one way a parser writes it: the provider compares what it is sent letter by letter. */
export function redirectUriOf(config: Pick<GatewayConfig, 'server'>): string {
  return new URL(`${issuerOf(config)}${CALLBACK_PATH}`).href;
}
