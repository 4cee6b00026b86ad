import type { FinishedSpan } from '../../../engine/telemetry/spans.ts';

const id = (n: number, digits: number) => n.toString(16).padStart(digits, '0');

/** A span with a bit of everything, told apart by a number. */
export function span(n: number, more: Partial<FinishedSpan> = {}): FinishedSpan {
  return {
    name: `span ${n}`,
    kind: 'server',
    trace_id: id(n + 1, 32),
    span_id: id(n + 1, 16),
    parent_span_id: undefined,
    parent_is_remote: false,
    trace_state: undefined,
    began_at: 1_800_000_000_000.25,
    ended_at: 1_800_000_001_000.5,
    attributes: { text: 'ä', whole: 7, part: 0.5, yes: true, list: ['a', 'b'], absent: undefined },
    events: [{ name: 'happened', at: 1_800_000_000_500, attributes: { why: 'because', absent: undefined } }],
    failed: false,
    ...more,
  };
}
