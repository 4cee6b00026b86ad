/** Headers that belong to one connection and never travel further (RFC 9110 section 7.6.1). */
export const CONNECTION_HEADERS: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/**
 * Request headers that end here: those of the connection, the caller's credential, what is set anew, and the page that sent a
 * request, which some servers refuse although it is the gateway that asks them.
 */
export const ENDING_HERE: ReadonlySet<string> = new Set([
  ...CONNECTION_HEADERS,
  'authorization',
  'content-length',
  'expect',
  'host',
  'origin',
  'x-api-key',
]);

/**
 * Names that a Connection header adds to them, in lower case; none of those that describe the body, which are for whoever
 * reads it (RFC 9110 section 7.6.1).
 */
export function nominated(connection: string | string[] | undefined): readonly string[] {
  if (connection === undefined || connection === 'keep-alive' || connection === 'close') return [];
  return String(connection)
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => !name.startsWith('content-'));
}
