import type { Router } from 'express';
import { clientCommand } from '../../../base/contract/client-package.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { createOriginReader } from '../client.ts';
import { beginConsole } from './console.ts';
import { callback, device, deviceAuthorization, deviceWithSlash, discovery } from './device.ts';
import { html, type Page } from './pages.ts';
import { CONSOLE_PATH, DEVICE_PATH, DISCOVERY_PATH, PROTOCOL_PATH } from './paths.ts';
import { type Answer, mountRoutes, type SignIn, type SignInOptions } from './routes.ts';
import { revoke, token } from './token.ts';

/** Serves the root of the gateway: a page for browsers, JSON for programs. */
export function frontRoute(options: Pick<SignInOptions, 'config' | 'clock' | 'log'>): Router {
  const { config } = options;
  const root = issuerOf(config);
  const signs_in = config.auth?.oidc !== undefined;
  const headers = { vary: 'accept' };
  const json = {
    status: 'ok',
    name: config.branding?.name ?? 'Model gateway',
    base_urls: { messages: root, chat_completions: `${root}/v1`, responses: `${root}/v1` },
    protocol: `${root}${PROTOCOL_PATH}`,
    console: `${root}${CONSOLE_PATH}`,
    ...(signs_in && { sign_in: `${root}${DISCOVERY_PATH}` }),
    ...(config.branding?.support_url !== undefined && { support_url: config.branding.support_url }),
  };
  const page = frontPage(root, signs_in);
  const get = ({ req }: { readonly req: { readonly headers: { readonly accept?: string | undefined } } }): Answer =>
    /\btext\/html\b/i.test(req.headers.accept ?? '') ? { status: 200, headers, page } : { status: 200, headers, json };
  return mountRoutes([{ path: '/', speaks: 'json', get }], { ...options, branding: config.branding });
}

/** @param root the public URL without a slash at its end. */
export function frontPage(root: string, signs_in: boolean): Page {
  const device = `${root}${DEVICE_PATH}`;
  const credential = signs_in
    ? html`<p>Sign in from your terminal with your company account:</p>
<pre><code>${clientCommand(root, 'login')}</code></pre>
<p class="soft">Clients with gateway sign-in need only the address. Does your terminal show a code? <a href="${device}">Enter it here</a>.</p>`
    : html`<p>You need an access token (<code>gw_…</code>). Ask your administrator for one.</p>`;
  return {
    title: 'Model gateway',
    content: html`<h1>This is a gateway to language models</h1>
<p class="soft">It serves clients such as the coding client in your terminal. For people there is <a href="${root}${CONSOLE_PATH}">the console</a>.</p>
${credential}
<h2>Address for your client</h2>
<dl>
<dt>Messages</dt><dd><code>${root}</code></dd>
<dt>All others</dt><dd><code>${root}/v1</code></dd>
</dl>
<p class="small"><a href="${root}${PROTOCOL_PATH}">Protocol reference for client authors</a></p>`,
  };
}

export { type ConsoleCallers, consoleSessionRoutes, createConsoleCallers } from './console.ts';
export { signInOff } from './device.ts';

export { type ProtocolOptions, protocolRoute } from './protocol.ts';
export type { SignInOptions } from './routes.ts';

/**
 * HTTP routes of sign-in for one configuration: OAuth 2.0 device authorization and the console's sign-in.
 *
 * | path                                    | caller   | what happens                                          |
 * |-----------------------------------------|----------|-------------------------------------------------------|
 * | /.well-known/oauth-authorization-server | program  | reads the endpoints (RFC 8414)                        |
 * | /oauth/device_authorization             | program  | gets a device code and a user code (RFC 8628)         |
 * | /device                                 | browser  | confirms the user code, goes to the identity provider |
 * | /oauth/callback                         | browser  | returns; the person is admitted or refused            |
 * | /oauth/token                            | program  | gets, and later renews, its session token             |
 * | /oauth/revoke                           | program  | signs out (RFC 7009)                                  |
 * | /console/sign-in                        | browser  | goes to the identity provider for the console         |
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
  const routes = [discovery, deviceAuthorization, device, deviceWithSlash, callback, token, revoke, beginConsole];
  return mountRoutes(
    routes.map((route) => route(sign_in)),
    { ...options, provider_url: config.auth?.oidc?.issuer_url, branding: config.branding },
  );
}
