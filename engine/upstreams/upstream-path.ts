import type { UpstreamConfig } from '../contract/config.ts';
import { percentDecoded } from '../kit/text/percent.ts';

/** A segment such as `v1`, `v3` or `v1beta`. */
const VERSION = /\/v\d+[a-z0-9]*(?=\/|$)/i;

/**
 * Makes the function that puts a request's path, with its query, behind the path of an upstream's base URL, and adds the query of
 * the upstream. The version that the path begins with is left out where `append_v1` is false, and where the base URL of a compat upstream names one.
 */
export function upstreamPaths({
  type,
  base_url,
  append_v1,
  query,
}: Pick<UpstreamConfig, 'type' | 'base_url' | 'append_v1' | 'query'>): (path: string) => string {
  const base = new URL(base_url).pathname.replace(/\/$/, '');
  const keeps_version = append_v1 ?? !(type === 'compat' && VERSION.test(base));
  const join = keeps_version
    ? (path: string) => base + path
    : (path: string) => base + (path.startsWith('/v1/') ? path.slice('/v1'.length) : path);
  if (query === undefined) return join;
  const names = new Set(Object.keys(query).map((name) => name.toLowerCase()));
  const own = Object.entries(query)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join('&');
  return (path) => join(withQuery(path, own, names));
}

/** Puts the query of an upstream before what remains of a client's own. */
function withQuery(path: string, own: string, names: ReadonlySet<string>): string {
  const at = path.indexOf('?');
  if (at < 0) return `${path}?${own}`;
  const isOwn = (pair: string) => pair.split(';').some((piece) => names.has(nameOf(piece)));
  const rest = path
    .slice(at + 1)
    .split('&')
    .filter((pair) => pair !== '' && !isOwn(pair));
  return `${path.slice(0, at)}?${[own, ...rest].join('&')}`;
}

/** The name of a query parameter as servers read it: many don't mind its case, and take `name[]` for a list. */
function nameOf(pair: string): string {
  const name = percentDecoded(pair.split('=', 1)[0]!.replaceAll('+', ' '));
  return name.trim().replace(/\[.*$/, '').toLowerCase();
}
