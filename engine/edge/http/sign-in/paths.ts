import { CALLBACK_PATH } from '../../../domain/identity/provider/provider.ts';

/** Paths of sign-in below the public URL, with the redirect URI of the identity provider. */
export const PATHS = {
  // Programs read the endpoints (RFC 8414), get a device code (RFC 8628) and session tokens, and sign out (RFC 7009).
  discovery: '/.well-known/oauth-authorization-server',
  device_authorization: '/oauth/device_authorization',
  token: '/oauth/token',
  revocation: '/oauth/revoke',
  // Browsers confirm the user code, and return from the identity provider.
  device: '/device',
  callback: CALLBACK_PATH,
  console: '/console',
  console_sign_in: '/console/sign-in',
  console_link: '/console/link',
  console_session: '/console/session',
  console_sign_out: '/console/sign-out',
  console_signed_out: '/console/signed-out',
  protocol: '/protocol',
} as const;

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
export const REFRESH_GRANT = 'refresh_token';

/** Whether a path is a file of the console; a browser loads many of them. */
export const isConsoleFile = (path: string): boolean =>
  (path === PATHS.console || path.startsWith(`${PATHS.console}/`)) && !path.startsWith(PATHS.console_sign_in);
