import type { UpstreamConfig } from '../contract/config.ts';

/** A segment such as `v1`, `v3` or `v1beta`. */
const VERSION = /\/v\d+[a-z0-9]*(?=\/|$)/i;

/**
 * Makes the function that puts a request's path, with its query, behind the path of an upstream's base URL. Where the base
 * URL of a compat upstream names a version, the one that the path begins with is left out.
 */
export function upstreamPaths({ type, base_url }: Pick<UpstreamConfig, 'type' | 'base_url'>): (path: string) => string {
  const base = new URL(base_url).pathname.replace(/\/$/, '');
  if (type !== 'compat' || !VERSION.test(base)) return (path) => base + path;
  return (path) => base + (path.startsWith('/v1/') ? path.slice('/v1'.length) : path);
}
