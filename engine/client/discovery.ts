import { EXIT_UNAVAILABLE, StartError } from '../contract/start-error.ts';
import { fieldsOf, unexpected } from './answers.ts';
import { sameOrigin } from './base-url.ts';
import { sentence, Unreachable } from './errors.ts';
import type { Ask } from './http.ts';

/** Where a gateway takes what belongs to sign-in; all on its own origin. */
export interface Endpoints {
  readonly device_authorization: string;
  readonly token: string;
  /** `undefined` when tokens can't be revoked there. */
  readonly revocation: string | undefined;
}

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/**
 * Reads the discovery document of a gateway (RFC 8414). Raises Unreachable when there is no answer, StartError when the
 * answer is no document of this gateway: its issuer and all endpoints must have the address that was given.
 */
export async function discover(ask: Ask, base_url: string, signal?: AbortSignal): Promise<Endpoints> {
  const url = `${base_url}/.well-known/oauth-authorization-server`;
  const answer = await ask('GET', url, { signal });
  const refuse = (what: string) => {
    throw new StartError(`${base_url} can't be signed in at: ${what}`, { exit_code: EXIT_UNAVAILABLE });
  };
  if (answer.status >= 500 || answer.status === 429) {
    throw new Unreachable(unexpected(`reading ${url}`, answer).message);
  }
  if (answer.status !== 200 || answer.kind !== 'json') {
    return refuse(
      `there is no discovery document at ${url} (status ${answer.status}); is it the address of a gateway?`,
    );
  }
  const document = fieldsOf(answer.body);
  const issuer = sentence(document.issuer);
  if (issuer === undefined) return refuse(`the document at ${url} names no issuer`);
  if (!URL.canParse(issuer) || new URL(issuer).href.replace(/\/+$/, '') !== base_url) {
    return refuse(`the gateway calls itself ${issuer}; give that address if you trust it`);
  }
  const endpoint = (field: string): string => {
    const value = document[field];
    if (typeof value !== 'string') return refuse(`the document at ${url} has no ${field}`);
    if (!sameOrigin(value, base_url)) return refuse(`its ${field} is at another address, which could be anybody's`);
    return value;
  };
  const grants = document.grant_types_supported;
  if (Array.isArray(grants) && !grants.includes(DEVICE_GRANT)) return refuse('it has no sign-in from a terminal');
  return {
    device_authorization: endpoint('device_authorization_endpoint'),
    token: endpoint('token_endpoint'),
    revocation: document.revocation_endpoint === undefined ? undefined : endpoint('revocation_endpoint'),
  };
}
