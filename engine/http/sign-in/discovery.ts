import {
  DEVICE_AUTHORIZATION_PATH,
  DEVICE_GRANT,
  DISCOVERY_PATH,
  PROTOCOL_PATH,
  REFRESH_GRANT,
  REVOCATION_PATH,
  TOKEN_PATH,
} from './paths.ts';
import type { Route, SignIn } from './routes.ts';

const CACHE_SECONDS = 300;

/** The document that tells programs where to sign in (RFC 8414). It says nothing of the identity provider, and so does not wait for it. */
export function discovery({ issuer }: SignIn): Route {
  const json = {
    issuer,
    device_authorization_endpoint: `${issuer}${DEVICE_AUTHORIZATION_PATH}`,
    token_endpoint: `${issuer}${TOKEN_PATH}`,
    revocation_endpoint: `${issuer}${REVOCATION_PATH}`,
    grant_types_supported: [DEVICE_GRANT, REFRESH_GRANT],
    // There is no authorization endpoint for programs to send a browser to.
    response_types_supported: [],
    token_endpoint_auth_methods_supported: ['none'],
    revocation_endpoint_auth_methods_supported: ['none'],
    service_documentation: `${issuer}${PROTOCOL_PATH}`,
  };
  const headers = { 'cache-control': `public, max-age=${CACHE_SECONDS}` };
  return { path: DISCOVERY_PATH, speaks: 'json', get: () => ({ status: 200, headers, json }) };
}

/**
 * The same document where RFC 8414 (section 3.1) has it for an issuer with a path: before that path, at the root of the
 * host. Most programs look below the issuer, as for OpenID Connect.
 */
export function discoveryAtRoot(sign_in: SignIn): Route[] {
  const { pathname } = new URL(sign_in.issuer);
  // What else a path may hold would mean something to the router.
  if (pathname === '/' || !/^[\w./~-]+$/.test(pathname)) return [];
  return [{ ...discovery(sign_in), path: `${DISCOVERY_PATH}${pathname}` }];
}
