import type { OutputBound, UpstreamConfig } from '../../base/contract/config.ts';
import type { KeyNames } from '../../base/contract/key-names.ts';
import type { Protocol } from '../../base/contract/protocol.ts';
import type { WantedTexts } from '../../base/contract/request-body.ts';
import type { BodyReading } from './body/fields.ts';
import type { Lifetime } from './body/lifetimes.ts';
import type { ProtocolErrors } from './errors.ts';
import type { ProtocolProbe } from './probe.ts';
import type { AnswerTexts } from './rewriting.ts';
import type { Json, ProtocolAdapter } from './translation/conversation.ts';
import type { Accepted } from './translation/tool-schemas.ts';
import type { UsageReader } from './usage.ts';

/** Client conventions of a protocol, for translated responses. */
export interface ClientManners {
  /** The header with the upstream's identifier of the request. */
  readonly request_id_header: string;
  /** Whether clients wait for any `retry-after`; others give up if it is long. */
  readonly waits_long: boolean;
  /** Whether clients add up the usage of responses; missing counts are estimated for them. */
  readonly adds_up_usage: boolean;
  /** Whether identifiers of tool calls may only have letters, digits, `_` and `-`. */
  readonly plain_call_ids: boolean;
  /** Whether clients get all texts of a response as one text. */
  readonly one_text: boolean;
  readonly stop_field: string;
  /** The path of clients' base URLs, after the address of the gateway. */
  readonly base_path: '' | '/v1';
}

/** What clients of chat completions and Responses look for. */
export const COMPAT_CLIENTS: ClientManners = {
  request_id_header: 'x-request-id',
  waits_long: false,
  adds_up_usage: false,
  plain_call_ids: false,
  one_text: false,
  stop_field: 'stop',
  base_path: '/v1',
};

/** Privileged fields of chat completions and Responses. */
export const COMPAT_FIELDS: readonly string[] = [
  ...['deployment', 'deployment_name', 'deployment_id', 'agent', 'agent_reference', 'assistant_id'],
  ...['modalities', 'input_audio', 'reasoning', 'search_parameters'],
];

/** How a request bounds its output, and how often the model may run for it. */
export interface OutputRules {
  /** The fields that bound the output; of two, an upstream may accept only one. */
  readonly fields: readonly [OutputBound, OutputBound?];
  /** The smallest bound that upstreams accept, in tokens; translated requests have at least this. */
  readonly min: number;
  readonly is_required: boolean;
  /** Maximum model runs for one response if the request does not bound its tools. */
  readonly runs_max: number;
  /** Whether bounds of tools also bound the runs; otherwise the model gets an error for a rejected use and runs on. */
  readonly are_runs_bounded: boolean;
}

export interface StreamRules {
  /** Events that announce a response before any of its content. */
  readonly preamble: readonly string[];
  /** Whether every stream begins with them, even one that then fails. */
  readonly has_preamble: boolean;
  /** Events that open a part of a response, and types of parts that are empty then. */
  readonly openings: readonly string[];
  readonly empty_parts: readonly string[];
  /** Whether servers always send an event for the end of a response. */
  readonly has_end: boolean;
  /** Whether a request must request the usage at the end of its stream (`stream_options`). */
  readonly has_usage_option: boolean;
  /** Keep-alive of a silent stream: an event, or a comment if the protocol has no such event. */
  readonly keep_alive: string;
}

export interface KeptState {
  /** Whether a request can set the lifetime of its prompt cache. */
  readonly cache_lifetimes: boolean;
  /** Whether upstreams expect state of tool calls back that clients may omit. */
  readonly call_state: boolean;
  /** Whether upstreams store responses that later requests refer to. */
  readonly responses: boolean;
  /** Whether reasoning always comes with a proof, and is no text for other upstreams. */
  readonly proven_reasoning: boolean;
}

/** Paths of the API beside that of model requests, for the form of errors there. */
export interface OtherPaths {
  /** Matches a segment that only this API has; of several in a path the first counts. */
  readonly own: RegExp;
  /** Matches a segment that other APIs have as well. */
  readonly shared?: RegExp;
  /** Headers of requests of this API at shared paths of another. */
  readonly headers?: readonly string[];
}

/** The complete definition of a protocol: one folder each, composed in its `index.ts`. */
export interface ProtocolDefinition {
  /** Its name in tables, such as `Messages`. */
  readonly name: string;
  /** `gen_ai.provider.name` of upstreams with an unknown host. */
  readonly provider: string;
  readonly path: string;
  readonly other_paths: OtherPaths;
  /** The type of upstreams that speak it. */
  readonly upstream_type: UpstreamConfig['type'];
  /** Privileged fields of this protocol that others lack; one that no protocol names is of all. */
  readonly privileged_fields: readonly string[];
  readonly known_keys: KeyNames;
  /** Headers with version and features by their names without vendor prefix, and defaults for translated requests. */
  readonly form_headers: Readonly<Record<string, string | undefined>>;
  readonly readBody: (body: Json) => BodyReading;
  /** The other protocol that a body is written in, as far as that is certain, and the field that shows it. */
  readonly meantFor: (body: Json) => readonly [protocol: Protocol, field: string] | undefined;
  readonly output: OutputRules;
  readonly kept: KeptState;
  readonly lifetimes: WantedTexts<Lifetime>;
  readonly readUsage: UsageReader;
  readonly errors: ProtocolErrors;
  readonly texts: AnswerTexts;
  readonly stream: StreamRules;
  readonly probe: ProtocolProbe;
  /** A response in YAML flow style, for the tests that `appscli init` writes; absent: they have one. */
  readonly example_response?: string;
  readonly accepted: Accepted;
  readonly adapter: ProtocolAdapter;
  readonly clients: ClientManners;
}
