import type { GatewayConfig } from '../../contract/config.ts';

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
