import type { StageContext } from '../../contract/stage.ts';
import { formatTraceParent } from '../../kit/net/trace-context.ts';
import type { Target } from '../target.ts';

const NONE: JoinedTrace = Object.freeze({});

/** The header by which an upstream's part of a trace joins that of the gateway. */
export interface JoinedTrace {
  readonly traceparent?: string;
}

/** What the next attempt sends of its trace, where its span is to be the parent; nothing where upstreams do not join. */
export function joinedTrace(
  { trace, attempts }: Pick<StageContext, 'trace' | 'attempts'>,
  { propagate }: Target,
): JoinedTrace {
  if (propagate !== 'join') return NONE;
  const { trace_id, is_kept } = trace;
  return {
    traceparent: formatTraceParent({ trace_id, span_id: trace.attemptSpanId(attempts.length + 1), sampled: is_kept }),
  };
}
