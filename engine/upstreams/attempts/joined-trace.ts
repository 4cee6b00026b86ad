import type { StageContext } from '../../contract/stage.ts';
import { formatTraceParent } from '../../kit/net/trace-context.ts';
import type { PreparedRequest, Target } from '../target.ts';

/**
 * What the next attempt sends: the request, and where upstreams join the trace of the gateway the header that makes the span of
 * this attempt the parent of theirs.
 */
export function withTrace(
  request: PreparedRequest,
  { trace, attempts }: Pick<StageContext, 'trace' | 'attempts'>,
  { propagate }: Target,
): PreparedRequest {
  if (propagate !== 'join') return request;
  const { trace_id, is_kept } = trace;
  const span_id = trace.attemptSpanId(attempts.length + 1);
  const traceparent = formatTraceParent({ trace_id, span_id, sampled: is_kept });
  return { ...request, headers: { ...request.headers, traceparent } };
}
