import type { OutputBound } from '../../base/contract/config.ts';
import type { KeyNames } from '../../base/contract/key-names.ts';
import type { Protocol } from '../../base/contract/protocol.ts';
import type { WantedTexts } from '../../base/contract/request-body.ts';
import type { BodyReading, Fields } from './body/fields.ts';
import type { Lifetime } from './body/lifetimes.ts';
import type { ProtocolErrors } from './errors.ts';
import type { AnswerTexts } from './rewriting.ts';
import type { Accepted } from './translation/accepted.ts';
import type { ProtocolAdapter } from './translation/conversation.ts';
import type { UsageReader } from './usage.ts';

/** What clients of a protocol look for in a translated response. */
export interface ClientManners {
  /** The header with the upstream's identifier of the request. */
  readonly request_id_header: string;
  /** Whether they wait for any `retry-after`, where others give up at a long one. */
  readonly waits_long: boolean;
  /** Whether they add up the usage of every response; what the upstream does not report is estimated for them. */
  readonly adds_up_usage: boolean;
  /** Whether identifiers of tool calls must be of few characters. */
  readonly plain_call_ids: boolean;
  /** Whether they get all texts of a response as one. */
  readonly one_text: boolean;
  /** The field of a request that has stop sequences. */
  readonly stop_field: string;
  /** What the base URL of such a client has behind the address of the gateway. */
  readonly base_path: '' | '/v1';
}

/** How a request bounds its output, and how often the model may run for it. */
export interface OutputRules {
  /** The fields that bound the output; of two, an upstream may accept only the one or the other. */
  readonly fields: readonly [OutputBound, OutputBound?];
  /** The least bound that upstreams accept, in tokens; a translated request has no smaller one. */
  readonly min: number;
  /** Whether every request must have a bound. */
  readonly is_required: boolean;
  /** How often a model runs for one response whose tools the request does not bound. */
  readonly runs_max: number;
  /** Whether bounds of tools bound the runs: where they do not, a refused use is an error that the model reads. */
  readonly are_runs_bounded: boolean;
}

/** How a stream begins and ends. */
export interface StreamRules {
  /** Events that announce a response before any of its content. */
  readonly preamble: readonly string[];
  /** Whether every stream begins with them, also one that fails right after. */
  readonly has_preamble: boolean;
  /** Events that open a part of a response, and types of parts that are empty then. */
  readonly openings: readonly string[];
  readonly empty_parts: readonly string[];
  /** Whether servers always send an event for the end of a response. */
  readonly has_end: boolean;
  /** Whether a request must ask for the usage at the end of its stream (`stream_options`). */
  readonly has_usage_option: boolean;
  /** What the gateway sends while a stream is silent: an event, or a comment where the protocol has no event for it. */
  readonly keep_alive: string;
}

/** What upstreams keep from one request for the next. */
export interface KeptState {
  /** Whether a request can say how long its prompt is cached. */
  readonly cache_lifetimes: boolean;
  /** Whether they expect state of tool calls back that clients may leave out. */
  readonly call_state: boolean;
  /** Whether they keep responses that later requests refer to. */
  readonly responses: boolean;
}

/** Everything the gateway knows about a protocol: a folder each, put together in its `index.ts`. */
export interface ProtocolDefinition {
  /** Its name in tables, such as `Messages`. */
  readonly name: string;
  /** What it is called in a sentence. */
  readonly api: string;
  /** `gen_ai.provider.name` of upstreams whose host has no name of its own. */
  readonly provider: string;
  readonly path: string;
  readonly known_keys: KeyNames;
  /**
   * Headers with the version and the features of a request, by their names behind the prefix of a vendor; with the value that a
   * translated request has where its client sends none.
   */
  readonly form_headers: Readonly<Record<string, string | undefined>>;
  /** What routing and money may know of a body. Raises invalid_request. */
  readonly readBody: (body: Fields) => BodyReading;
  /** The other protocol that a body is written in, as far as that is certain, and the field that shows it. */
  readonly meantFor: (body: Fields) => readonly [protocol: Protocol, field: string] | undefined;
  readonly output: OutputRules;
  readonly kept: KeptState;
  /** Where a request says how long its prompt is to be cached. */
  readonly lifetimes: WantedTexts<Lifetime>;
  readonly readUsage: UsageReader;
  readonly errors: ProtocolErrors;
  readonly texts: AnswerTexts;
  readonly stream: StreamRules;
  readonly accepted: Accepted;
  readonly adapter: ProtocolAdapter;
  readonly clients: ClientManners;
}
