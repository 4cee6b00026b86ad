import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Log } from '../../../engine/api.ts';
import type { OidcConfig } from '../../../engine/base/contract/config.ts';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import {
  type Identified,
  ProviderError,
  type ProviderProblem,
} from '../../../engine/domain/identity/provider/provider.ts';
import {
  createIdentityProvider,
  type IdentityProvider,
} from '../../../engine/domain/identity/provider/provider-client.ts';
import { approveAt, type IdentityProviderOptions, startIdentityProvider } from './identity-provider.ts';
import { oidcConfig } from './oidc-config.ts';
import { NONCE } from './scripted-identity-provider.ts';

export const SECRET = 'the-client-secret-of-the-gateway';
export const REDIRECT_URI = 'http://127.0.0.1:9/oauth/callback';
export const ATTEMPT = {
  state: 'state-of-this-attempt',
  nonce: NONCE,
  code_verifier: 'verifier-of-this-attempt-of-at-least-43-characters',
};

/** A provider client on a stopped clock; `lines` is its log. */
export function makeProvider(
  issuer: string,
  changes: Partial<OidcConfig> = {},
  secret: string = SECRET,
): { readonly provider: IdentityProvider; readonly clock: FrozenClock; readonly lines: string[] } {
  const clock = frozenClock('2026-01-01T00:00:00Z');
  const lines: string[] = [];
  const note = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: note, info: note, warn: note, error: note };
  const oidc = oidcConfig(issuer, changes);
  return {
    provider: createIdentityProvider({ oidc, secret: () => secret, redirect_uri: REDIRECT_URI, log, clock }),
    clock,
    lines,
  };
}

/** A running identity provider, a client of it, and a way to sign a user in. */
export async function useProvider(
  t: TestContext,
  options: IdentityProviderOptions = {},
  changes: Partial<OidcConfig> = {},
  secret?: string,
) {
  const remote = await startIdentityProvider(options);
  t.after(() => remote.close());
  remote.register(REDIRECT_URI);
  const made = makeProvider(remote.issuer, changes, secret ?? remote.client_secret);
  const signIn = async (sub: string): Promise<Identified> => {
    const url = await made.provider.authorizationUrl(ATTEMPT);
    return made.provider.identify(await approveAt(url, sub), ATTEMPT);
  };
  return { remote, signIn, ...made };
}

export async function fails(
  promise: Promise<unknown>,
  problem: ProviderProblem,
  message: RegExp,
): Promise<ProviderError> {
  const error = await promise.then(
    () => assert.fail('it succeeded'),
    (caught: unknown) => caught,
  );
  assert.ok(error instanceof ProviderError, String(error));
  assert.match(error.message, message);
  assert.equal(error.problem, problem, error.message);
  return error;
}
