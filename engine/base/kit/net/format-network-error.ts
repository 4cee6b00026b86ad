import { UnusableProxy } from './proxy-route.ts';
import { NoTunnel, ProxyUnreachable } from './tunnel.ts';

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was cut',
  EPIPE: 'the connection was cut',
  UND_ERR_SOCKET: 'the connection was cut',
  UND_ERR_CONNECT_TIMEOUT: 'no connection',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not found',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'no connection',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not trusted: it is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not trusted: its authority is unknown',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is not trusted: its authority is unknown',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not trusted: its authority is unknown',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host',
  EPROTO: 'it does not speak TLS',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS',
  HPE_HEADER_OVERFLOW: 'its response headers are too large',
  HPE_INVALID_CONSTANT: 'it does not speak HTTP',
  ERR_INVALID_CHAR: 'the credential contains a character that HTTP headers cannot carry',
};

/** Why a connection or request failed, in a few words without secrets. */
export function formatNetworkError(error: unknown, timeout_seconds: number): string {
  // Their messages never contain the credential of the proxy.
  if (error instanceof NoTunnel || error instanceof UnusableProxy) return error.message;
  if (error instanceof ProxyUnreachable)
    return `no connection through the proxy ${error.proxy}: ${REASONS[error.code] ?? `error ${error.code}`}`;
  const { name, code = '' } = (error ?? {}) as { name?: string; code?: string };
  if (name === 'TimeoutError' || name === 'AbortError') return `no answer within ${timeout_seconds} seconds`;
  return REASONS[code] ?? (/^HPE_/.test(code) ? 'it does not speak HTTP' : code === '' ? 'it failed' : `error ${code}`);
}
