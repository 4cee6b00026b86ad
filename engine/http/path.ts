/** The path of a request target as received, without its query; never decoded or normalised, so that it means one thing. */
export function pathOf(url: string): string {
  const query = url.indexOf('?');
  return query < 0 ? url : url.slice(0, query);
}

/** First segments of what the gateway serves itself. A prefix that begins like one of them cannot be distinguished. */
const OWN_SEGMENTS = /^\/(?:v1|api|admin|console|managed|oauth|device|protocol|healthz|readyz|\.well-known)(?:\/|$)/;

/**
 * The path of the public URL, without a slash at its end, by which requests are known that come through a proxy that
 * leaves it on; empty where there is none, or where only a proxy that takes it away can be meant.
 */
export function prefixOf(public_url: string): string {
  const prefix = new URL(public_url).pathname.replace(/\/+$/, '');
  return OWN_SEGMENTS.test(prefix) ? '' : prefix;
}

/** A request target without the path of the public URL, whether the proxy has taken it away or not. */
export function belowPrefix(url: string, prefix: string): string {
  if (prefix === '' || !url.startsWith(prefix)) return url;
  const rest = url.slice(prefix.length);
  if (rest.startsWith('/')) return rest;
  return rest === '' || rest.startsWith('?') ? `/${rest}` : url;
}
