import { SELFCHECK_EVENTS, type SelfcheckArrived } from '../../contract/selfcheck-endpoint.ts';
import type { Exchange } from '../../kit/net/exchange.ts';

/** What a gateway says of a request that reached it; `undefined` where the answer is of something else. Its texts are as they came. */
export function readArrived({ status, body }: Pick<Exchange, 'status' | 'body'>): SelfcheckArrived | undefined {
  return status === 200 ? arrivedIn(body.toString('utf8')) : undefined;
}

/** The same out of the first event of a stream. */
export function readStreamedArrived({ status, body }: Pick<Exchange, 'status' | 'body'>): SelfcheckArrived | undefined {
  const first = /^event: ?selfcheck\.arrived\r?\ndata: ?(.{2,65536})\r?$/m.exec(body.toString('utf8', 0, 70_000));
  return status === 200 && first !== null ? arrivedIn(first[1]!) : undefined;
}

function arrivedIn(text: string): SelfcheckArrived | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return isArrived(value) ? value : undefined;
}

function isArrived(value: unknown): value is SelfcheckArrived {
  const { type, version, instance, time, query, http, tls, credentials, headers, forwarded, body } = fields(value);
  const { for_hops, proto, host, believed } = fields(forwarded);
  const { bytes, sha256 } = fields(body);
  const texts = [version, instance, time, query, http, sha256, ...Object.values(fields(headers))];
  const nullable = [proto, host].every((each) => each === null || typeof each === 'string');
  return (
    type === SELFCHECK_EVENTS.arrived &&
    texts.every((each) => typeof each === 'string') &&
    typeof tls === 'boolean' &&
    typeof believed === 'boolean' &&
    Number.isSafeInteger(for_hops) &&
    Number.isSafeInteger(bytes) &&
    nullable &&
    Array.isArray(credentials) &&
    typeof headers === 'object'
  );
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
