import { UnusableProxy } from './proxy-route.ts';
import { NoTunnel, ProxyUnreachable } from './tunnel.ts';

/** Kind of a failed connection or request. */
export type NetworkFault =
  | 'refused'
  | 'unknown_host'
  | 'no_route'
  | 'cut'
  | 'expired'
  | 'untrusted'
  | 'other_host'
  | 'no_tls'
  | 'no_http'
  | 'large_head'
  | 'credential'
  | 'proxy'
  | 'proxy_setting'
  | 'late'
  | 'other';

type Reason = readonly [fault: NetworkFault, text: string];

const CUT: Reason = ['cut', 'the connection was cut'];
const UNKNOWN: Reason = ['unknown_host', 'host name not found'];
const NO_AUTHORITY: Reason = ['untrusted', 'its certificate is not trusted: its authority is unknown'];
const NO_TLS: Reason = ['no_tls', 'it does not speak TLS'];
const NO_HTTP: Reason = ['no_http', 'it does not speak HTTP'];

const REASONS: Readonly<Record<string, Reason>> = {
  ECONNREFUSED: ['refused', 'connection refused'],
  ECONNRESET: CUT,
  EPIPE: CUT,
  UND_ERR_SOCKET: CUT,
  UND_ERR_CONNECT_TIMEOUT: ['no_route', 'no connection'],
  ETIMEDOUT: ['no_route', 'no connection'],
  EHOSTUNREACH: ['no_route', 'host unreachable'],
  ENETUNREACH: ['no_route', 'network unreachable'],
  ENOTFOUND: UNKNOWN,
  EAI_AGAIN: UNKNOWN,
  CERT_HAS_EXPIRED: ['expired', 'its certificate has expired'],
  CERT_NOT_YET_VALID: ['expired', 'its certificate is not valid yet'],
  DEPTH_ZERO_SELF_SIGNED_CERT: ['untrusted', 'its certificate is not trusted: it is self-signed'],
  SELF_SIGNED_CERT_IN_CHAIN: NO_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: NO_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: NO_AUTHORITY,
  ERR_TLS_CERT_ALTNAME_INVALID: ['other_host', 'its certificate is for another host'],
  EPROTO: NO_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
  HPE_HEADER_OVERFLOW: ['large_head', 'its response headers are too large'],
  ERR_INVALID_CHAR: ['credential', 'the credential contains a character that HTTP headers cannot carry'],
};

function reasonOf(error: unknown): Reason {
  // Their messages never contain the credential of the proxy.
  if (error instanceof UnusableProxy) return ['proxy_setting', error.message];
  if (error instanceof NoTunnel) return ['proxy', error.message];
  if (error instanceof ProxyUnreachable) {
    const why = REASONS[error.code]?.[1] ?? `error ${error.code}`;
    return ['proxy', `no connection through the proxy ${error.proxy}: ${why}`];
  }
  const { name, code = '' } = (error ?? {}) as { name?: string; code?: string };
  if (name === 'TimeoutError' || name === 'AbortError') return ['late', 'no response in time'];
  if (/^HPE_/.test(code)) return REASONS[code] ?? NO_HTTP;
  return REASONS[code] ?? ['other', code === '' ? 'it failed' : `error ${code}`];
}

/** The kind of a network error. */
export function networkFault(error: unknown): NetworkFault {
  return reasonOf(error)[0];
}

/** Why a connection or request failed, in a few words without secrets. */
export function formatNetworkError(error: unknown, timeout_seconds: number): string {
  const [fault, text] = reasonOf(error);
  return fault === 'late' ? `no response within ${timeout_seconds} seconds` : text;
}
