import type { Protocol } from '../protocol.ts';
import type { Profile } from './profile.ts';

/** Fields of requests that bound the output: of Messages and chat completions, chat completions, Responses. */
export const OUTPUT_BOUNDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const;

/** One of them. */
export type OutputBound = (typeof OUTPUT_BOUNDS)[number];

/** Those of chat completions. */
export type ChatBound = Exclude<OutputBound, 'max_output_tokens'>;

/** One entry of `upstreams`. */
export interface UpstreamConfig {
  readonly name: string;
  readonly type: 'vendor' | 'compat';
  readonly base_url: string;
  readonly api_key_env?: string;
  readonly auth_token_env?: string;
  readonly region?: string;
  /** Whose header names it takes; absent where neither it, nor its address, nor `server.profile` tells. */
  readonly profile?: Profile | undefined;
  /** APIs it speaks; for clients of another API the first is used. */
  readonly protocols: readonly Protocol[];
  readonly supports: {
    readonly prompt_cache_1h: boolean;
    readonly count_tokens: boolean;
    /** Chat completions: whether it can report usage at the end of a stream. */
    readonly stream_usage: boolean;
    readonly max_tokens_0: boolean;
    /** Whether it takes reasoning without a proof of its own. */
    readonly unproven_reasoning: boolean;
    /** Whether it takes thinking blocks with an empty signature, as servers do that sign nothing. */
    readonly unsigned_reasoning: boolean;
  };
  /** Field of chat completions that alone it takes for a bound of the output; absent: it is not known to know one only. */
  readonly max_tokens_field?: ChatBound;
  /** Fields that bound the output and that it keeps to; under any other a request may take all the model can say. */
  readonly honours: readonly OutputBound[];
  /** How often a model is run at most for one answer in which it may use the upstream's tools as often as it likes. */
  readonly tool_iterations?: number;
  /** What becomes of an answer whose client has gone: read on for its bill, within `drain_limits`, or cancelled. */
  readonly on_client_abort: 'drain' | 'cancel';
  readonly drain_limits: { readonly seconds: number; readonly bytes: number; readonly requests: number };
  /** Contract multiplier on all prices at this upstream. */
  readonly price_multiplier: number;
  /** Fields of requests that callers may use here though they choose who serves or pays; places as in `tools[].model`. */
  readonly allow_fields?: readonly string[];
  /** Headers of requests that reach it though they choose who serves or pays; lower case. */
  readonly allow_headers?: readonly string[];
}
