import type { Router } from 'express';
import { issuerOf } from '../../identity/provider/issuer.ts';
import { createOriginReader } from '../forwarded.ts';
import { callback } from './callback.ts';
import { beginConsole, beginConsoleWithSlash } from './console/begin.ts';
import { device, deviceWithSlash } from './device.ts';
import { deviceAuthorization } from './device-authorization.ts';
import { discovery, discoveryAtRoot } from './discovery.ts';
import { revoke } from './revoke.ts';
import { mountRoutes, type SignIn, type SignInOptions } from './routes.ts';
import { token } from './token.ts';

export { type ConsoleCallers, createConsoleCallers } from './console/console-caller.ts';
export { consoleSessionRoutes } from './console/index.ts';
export { frontRoute } from './front-page.ts';
export { signInOff } from './off.ts';
export { type ProtocolOptions, protocolRoute } from './protocol.ts';
export type { SignInOptions } from './routes.ts';

/**
 * The HTTP side of sign-in for one configuration: everything between "sign in" in a terminal and a session token.
 *
 * | path                                    | who asks     | what happens                                          |
 * |-----------------------------------------|--------------|-------------------------------------------------------|
 * | /.well-known/oauth-authorization-server | the program  | learns the endpoints (RFC 8414)                       |
 * | /oauth/device_authorization             | the program  | gets a device code and a user code (RFC 8628)         |
 * | /device                                 | the browser  | confirms the user code, goes to the identity provider |
 * | /oauth/callback                         | the browser  | comes back; the person is admitted or not             |
 * | /oauth/token                            | the program  | gets, and later renews, its session token             |
 * | /oauth/revoke                           | the program  | signs out (RFC 7009)                                  |
 * | /console/sign-in                        | the browser  | goes to the identity provider for the console         |
 */
export function signInRoutes(options: SignInOptions): Router {
  const { config } = options;
  const origin_reader = createOriginReader(config.server);
  const issuer = issuerOf(config);
  const sign_in: SignIn = {
    ...options,
    issuer,
    origin: new URL(issuer).origin,
    form: { clock: options.clock, seconds: config.server.timeouts.request_body_seconds },
    addressOf: (req) => origin_reader.address(req.socket.remoteAddress, req.headers),
  };
  const routes = [
    discovery,
    deviceAuthorization,
    device,
    deviceWithSlash,
    callback,
    token,
    revoke,
    beginConsole,
    beginConsoleWithSlash,
  ];
  return mountRoutes([...routes.map((route) => route(sign_in)), ...discoveryAtRoot(sign_in)], {
    ...options,
    provider_url: config.auth?.oidc?.issuer_url,
    branding: config.branding,
  });
}
