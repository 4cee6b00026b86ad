import { SELFCHECK_EVENTS, type SelfcheckArrived } from '../../contract/selfcheck-endpoint.ts';
import { type Answer, fieldsOf } from '../read-answer.ts';

/** What a gateway says of a request that reached it; `undefined` where the answer is of something else. Its texts are as they came. */
export function readArrived({ status, json }: Pick<Answer, 'status' | 'json'>): SelfcheckArrived | undefined {
  return status === 200 && isArrived(json) ? json : undefined;
}

/** The same out of the first event of a stream. */
export function readStreamedArrived({ status, text }: Pick<Answer, 'status' | 'text'>): SelfcheckArrived | undefined {
  const first = /^event: ?selfcheck\.arrived\r?\ndata: ?(.{2,65536})\r?$/m.exec(text.slice(0, 70_000));
  try {
    return first === null ? undefined : readArrived({ status, json: JSON.parse(first[1]!) });
  } catch {
    return undefined;
  }
}

function isArrived(value: unknown): value is SelfcheckArrived {
  const { type, version, instance, time, query, http, tls, credentials, headers, forwarded, body } = fieldsOf(value);
  const { for_hops, proto, host, believed } = fieldsOf(forwarded);
  const { bytes, sha256 } = fieldsOf(body);
  const texts = [version, instance, time, query, http, sha256, ...Object.values(fieldsOf(headers))];
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
