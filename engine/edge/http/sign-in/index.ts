import type { Router } from 'express';
import { clientCommand } from '../../../base/contract/client-package.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { DEFINITIONS } from '../../../domain/protocols/definitions.ts';
import { createOriginReader } from '../client.ts';
import { beginConsole } from './console.ts';
import { callback, device, deviceAuthorization, deviceWithSlash, discovery } from './device.ts';
import { html, type Page } from './pages.ts';
import { PATHS } from './paths.ts';
import { type Answer, mountRoutes, type SignIn, type SignInOptions } from './routes.ts';
import { revoke, token } from './token.ts';

const keyOf = (name: string): string => name.toLowerCase().replaceAll(' ', '_');

/** Serves the root of the gateway: a page for browsers, JSON for programs. */
export function frontRoute(options: Pick<SignInOptions, 'config' | 'clock' | 'log'>): Router {
  const { config } = options;
  const root = issuerOf(config);
  const signs_in = config.auth?.oidc !== undefined;
  const headers = { vary: 'accept' };
  const json = {
    status: 'ok',
    name: config.branding?.name ?? 'Model gateway',
    base_urls: Object.fromEntries(
      Object.values(DEFINITIONS).map(({ name, clients }) => [keyOf(name), root + clients.base_path]),
    ),
    protocol: `${root}${PATHS.protocol}`,
    console: `${root}${PATHS.console}`,
    ...(signs_in && { sign_in: `${root}${PATHS.discovery}` }),
    ...(config.branding?.support_url !== undefined && { support_url: config.branding.support_url }),
  };
  const page = frontPage(root, signs_in);
  const get = ({ req }: { readonly req: { readonly headers: { readonly accept?: string | undefined } } }): Answer =>
    /\btext\/html\b/i.test(req.headers.accept ?? '') ? { status: 200, headers, page } : { status: 200, headers, json };
  return mountRoutes([{ path: '/', speaks: 'json', get }], { ...options, branding: config.branding });
}

/** @param root the public URL without a slash at its end. */
export function frontPage(root: string, signs_in: boolean): Page {
  const device = `${root}${PATHS.device}`;
  const credential = signs_in
    ? html`<p>Sign in from your terminal with your company account:</p>
<pre><code>${clientCommand(root, 'login')}</code></pre>
<p class="soft">Clients with gateway sign-in need only the address. Does your terminal show a code? <a href="${device}">Enter it here</a>.</p>`
    : html`<p>You need an access token (<code>gw_…</code>). Ask your administrator for one.</p>`;
  return {
    title: 'Model gateway',
    content: html`<h1>This is a gateway to language models</h1>
<p class="soft">Coding clients send model requests to it. Usage, limits and tokens are in <a href="${root}${PATHS.console}">the console</a>.</p>
${credential}
<h2>Address for your client</h2>
<dl>
<dt>Messages</dt><dd><code>${root}</code></dd>
<dt>All others</dt><dd><code>${root}/v1</code></dd>
</dl>
<p class="small"><a href="${root}${PATHS.protocol}">Protocol reference for client authors</a></p>`,
  };
}

export { type ConsoleCallers, consoleSessionRoutes, createConsoleCallers } from './console.ts';
export { signInOff } from './device.ts';

export { type ProtocolOptions, protocolRoute } from './protocol.ts';
export type { SignInOptions } from './routes.ts';

/** HTTP routes of sign-in for one configuration: OAuth 2.0 device authorization and the console's sign-in. */
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
