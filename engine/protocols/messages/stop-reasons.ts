import type { StopReason } from '../translation/events.ts';

const READ: ReadonlyMap<unknown, StopReason> = new Map([
  ['end_turn', 'finished'],
  ['max_tokens', 'max_tokens'],
  ['stop_sequence', 'stop_sequence'],
  ['tool_use', 'tool_calls'],
  ['pause_turn', 'paused'],
  ['compaction', 'paused'],
  ['refusal', 'refusal'],
  ['model_context_window_exceeded', 'context_window'],
] as const);

const WRITTEN = {
  finished: 'end_turn',
  max_tokens: 'max_tokens',
  stop_sequence: 'stop_sequence',
  tool_calls: 'tool_use',
  refusal: 'refusal',
  content_filter: 'refusal',
  paused: 'pause_turn',
  context_window: 'model_context_window_exceeded',
} as const satisfies Record<StopReason, string>;

/** Why the model stopped; one this version does not know counts as finished. */
export function readStopReason(reason: unknown, has_calls: boolean): StopReason {
  return READ.get(reason) ?? (has_calls ? 'tool_calls' : 'finished');
}

/** `stop_reason` of an answer. A refusal may have come as text of its own, with a reason that says nothing of it. */
export function writeStopReason(reason: StopReason, has_refusal: boolean): string {
  return reason === 'finished' && has_refusal ? WRITTEN.refusal : WRITTEN[reason];
}
