/** Paths of sign-in below the public URL, with the redirect URI of the identity provider. */
export { CALLBACK_PATH } from '../../../domain/identity/provider/provider.ts';

export const DISCOVERY_PATH = '/.well-known/oauth-authorization-server';
export const DEVICE_AUTHORIZATION_PATH = '/oauth/device_authorization';
export const DEVICE_PATH = '/device';
export const TOKEN_PATH = '/oauth/token';
export const REVOCATION_PATH = '/oauth/revoke';
export const CONSOLE_PATH = '/console';
export const CONSOLE_SIGN_IN_PATH = `${CONSOLE_PATH}/sign-in`;
export const CONSOLE_LINK_PATH = `${CONSOLE_PATH}/link`;
export const CONSOLE_SESSION_PATH = `${CONSOLE_PATH}/session`;
export const CONSOLE_SIGN_OUT_PATH = `${CONSOLE_PATH}/sign-out`;
export const CONSOLE_SIGNED_OUT_PATH = `${CONSOLE_PATH}/signed-out`;
export const PROTOCOL_PATH = '/protocol';

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
export const REFRESH_GRANT = 'refresh_token';

/** Whether a path is a file of the console; a browser loads many of them. */
export const isConsoleFile = (path: string): boolean =>
  (path === CONSOLE_PATH || path.startsWith(`${CONSOLE_PATH}/`)) && !path.startsWith(CONSOLE_SIGN_IN_PATH);
