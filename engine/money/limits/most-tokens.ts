import type { ChatBound, ModelConfig, OutputBound, UpstreamConfig } from '../../contract/config.ts';
import { OUTPUT_BOUND_MIN, type Protocol, protocolOf } from '../../contract/protocol.ts';
import { otherBound } from '../../protocols/body/output-bound.ts';

/** What a request says about the size of its answer, and where it goes. */
export interface AnswerBounds {
  /** Protocol that the client speaks. */
  readonly protocol: string;
  /** A context window that the request asks for, in tokens. */
  readonly window_asked?: number | undefined;
  /** Protocol in which the upstream is asked. */
  readonly upstream_protocol: Protocol;
  readonly input_max: number;
  /** Output bounds of the request by the names of their fields, and the largest of them. */
  readonly output_bounds: Readonly<Record<string, number>>;
  readonly max_tokens: number | undefined;
  readonly choices: number;
  /** How often the model may be run; 0: it may use the upstream's tools as often as it likes. */
  readonly iterations: number;
  readonly compacts: boolean;
}

/** The most tokens that an answer can take. */
export interface MostTokens {
  /** Of one run of the model. */
  readonly input: number;
  readonly output: number;
  /** How often the model is run. */
  readonly runs: number;
  /** How often another model may be, which the request names beside it. */
  readonly other_runs: number;
  /** How often it is run on top to summarize the conversation, and how much it may say then. */
  readonly compactions: number;
  readonly compaction_output: number;
}

/**
 * How often a model is run for one answer that bounds no tool: as the Messages API documents it, and for Responses, which
 * document no bound, more than any answer is known to have taken.
 */
const ITERATIONS: Readonly<Record<Protocol, number>> = { messages: 10, chat: 10, responses: 100 };

/** The most tokens that a request can use of a model. A model reads and writes no more than its context window in one run. */
export function mostTokens(model: ModelConfig, upstream: UpstreamConfig, bounds: AnswerBounds): MostTokens {
  const { max_output_tokens } = model;
  const { choices, upstream_protocol, compacts, window_asked = 0 } = bounds;
  const context_window = Math.max(model.context_window, window_asked);
  if (bounds.protocol === 'none') {
    // Every text of a list is read by itself.
    const input = Math.min(bounds.input_max, context_window * choices);
    const once = { runs: 1, other_runs: 1, compactions: 0, compaction_output: 0 };
    return { input, output: max_output_tokens * choices, ...once };
  }
  const endless = upstream.tool_iterations ?? ITERATIONS[upstream_protocol];
  const asked = bounds.iterations || endless;
  // A use that `max_uses` refuses is an error that the model reads and goes on from: there bounds of tools bound no runs.
  const iterations = asked > 1 && upstream_protocol === 'messages' ? Math.max(asked, endless) : asked;
  const output = outputBound(model, upstream, bounds) ?? max_output_tokens;
  return {
    input: Math.min(bounds.input_max, context_window),
    output: Math.min(output, Math.max(context_window, max_output_tokens)),
    // Some providers read the input once for every choice.
    runs: iterations * choices,
    other_runs: asked * choices,
    compactions: compacts ? iterations * choices : 0,
    compaction_output: compacts ? max_output_tokens : 0,
  };
}

/**
 * The bound that the upstream keeps to, if it is sent one: then the largest that is sent, as it may know the others too and
 * prefer them. 0 is none: there are servers that take it for that.
 */
function outputBound(
  model: ModelConfig,
  { honours, max_tokens_field }: UpstreamConfig,
  bounds: AnswerBounds,
): number | undefined {
  const { protocol, upstream_protocol, output_bounds } = bounds;
  // Messages has no request without a bound, so that a translated one says one of ours.
  const unasked = upstream_protocol === 'messages' ? model.default_output_tokens : 0;
  const max_tokens = bounds.max_tokens ?? unasked;
  const translated = max_tokens === 0 ? 0 : Math.max(max_tokens, OUTPUT_BOUND_MIN[upstream_protocol] ?? 0);
  const sent =
    protocolOf(protocol) === upstream_protocol
      ? respelt(output_bounds, upstream_protocol, max_tokens_field)
      : { [writtenBound(model, upstream_protocol, max_tokens_field)]: translated };
  const is_kept = honours.some((name) => (sent[name] ?? 0) > 0);
  return is_kept ? Math.max(...Object.values(sent)) : undefined;
}

/** What the bound is called in a request that the gateway has translated. */
function writtenBound({ supports }: ModelConfig, protocol: Protocol, field: ChatBound | undefined): OutputBound {
  if (protocol === 'responses') return 'max_output_tokens';
  if (protocol === 'chat' && field !== undefined) return field;
  return protocol === 'chat' && supports.thinking !== 'none' ? 'max_completion_tokens' : 'max_tokens';
}

/** The bounds of an untranslated request as they are sent: see `spellBound`. */
function respelt(
  bounds: Readonly<Record<string, number>>,
  protocol: Protocol,
  field: ChatBound | undefined,
): Readonly<Record<string, number>> {
  if (protocol !== 'chat' || field === undefined || bounds[field] !== undefined) return bounds;
  const { [otherBound(field)]: bound, ...others } = bounds;
  return bound === undefined ? bounds : { ...others, [field]: bound };
}
