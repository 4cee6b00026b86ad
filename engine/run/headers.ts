/** The gateway's own request identifier, set on every response. */
export const REQUEST_ID_HEADER = 'x-gateway-request-id';

/** Headers that belong to one connection and never travel further (RFC 9110 section 7.6.1), and our own. */
const NOT_FORWARDED = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  REQUEST_ID_HEADER,
]);

/** Names the Connection header adds to the hop-by-hop ones, lower case. */
function nominated(connection: string | string[] | undefined): readonly string[] {
  if (connection === undefined || connection === 'keep-alive' || connection === 'close') return [];
  return String(connection)
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
}

/** The end-to-end headers of a message, in order and spelled as received, as a flat list of names and values. */
export function endToEndHeaders(raw: readonly string[], connection: string | string[] | undefined): string[] {
  const dropped = nominated(connection);
  const kept: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    if (!NOT_FORWARDED.has(name) && !dropped.includes(name)) kept.push(raw[i]!, raw[i + 1]!);
  }
  return kept;
}
