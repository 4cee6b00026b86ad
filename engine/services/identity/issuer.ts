import type { GatewayConfig } from '../../config.ts';

/** The public URL without a trailing slash: what sign-in calls itself, and what its endpoints begin with. */
export function issuerOf({ server }: Pick<GatewayConfig, 'server'>): string {
  return server.public_url.replace(/\/+$/, '');
}

/** Where the identity provider sends browsers back to, below the public URL. */
export const CALLBACK_PATH = '/oauth/callback';
