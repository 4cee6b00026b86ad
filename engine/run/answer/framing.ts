import type { IncomingMessage } from 'node:http';

/** A host as the Host header names it, with or without a port; empty where a client has none to name. */
const HOST = /^(?:\[[0-9a-f:.%]+\]|[\w.~%-]*)(?::\d{0,5})?$/i;

/**
 * What is wrong with how a request names its host, tells the type of its body or marks its end, where a proxy in front of the gateway
 * might read it in another way; `undefined` when nothing is. Node's parser refuses the rest (RFC 9112 sections 3.2 and 6).
 */
export function framingProblem({ headers, rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  const { host } = headers;
  const coding = headers['transfer-encoding'];
  // Node's parser takes some of 0.9 and 2.0, too, to which nothing below would apply.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return `The request is HTTP/${httpVersion}; write HTTP/1.1.`;
  if (coding !== undefined) {
    if (httpVersion === '1.0') return 'The request is HTTP/1.0, which has no Transfer-Encoding.';
    // Repeated headers arrive here joined by commas.
    if (coding.toLowerCase() !== 'chunked') return 'The only Transfer-Encoding taken is "chunked", and that once.';
  }
  const repeated = repeatedHeader(rawHeaders);
  if (repeated !== undefined) return `The request has more than one ${repeated} header.`;
  if (host === undefined) {
    return httpVersion === '1.1' ? 'The request has no Host header; every request must have one.' : undefined;
  }
  return HOST.test(host) ? undefined : 'The Host header names no host.';
}

/** Of several Node's `headers` shows the first, and a proxy, or the upstream, may go by the last. */
function repeatedHeader(raw: readonly string[]): string | undefined {
  let host = false;
  let type = false;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    if (name.length === 4 && name.toLowerCase() === 'host') {
      if (host) return 'Host';
      host = true;
    } else if (name.length === 12 && name.toLowerCase() === 'content-type') {
      if (type) return 'Content-Type';
      type = true;
    }
  }
  return undefined;
}
