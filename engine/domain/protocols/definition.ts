import type { KeyNames } from '../../base/contract/key-names.ts';
import type { Protocol } from '../../base/contract/protocol.ts';
import type { WantedTexts } from '../../base/contract/request-body.ts';
import type { BodyReading, Fields } from './body/fields.ts';
import type { Lifetime } from './body/lifetimes.ts';
import type { ProtocolErrors } from './errors.ts';
import type { AnswerTexts } from './rewriting.ts';
import type { ProtocolAdapter } from './translation/conversation.ts';
import type { UsageReader } from './usage.ts';

/** What clients of a protocol look for in an answer that was translated. */
export interface ClientManners {
  /** The header with the upstream's identifier of the request. */
  readonly request_id_header: string;
  /** Whether they sleep out any `retry-after`, where others give up at a long one. */
  readonly waits_long: boolean;
  /** Whether they add up the usage of every answer; what the upstream does not tell is estimated for them. */
  readonly adds_up_usage: boolean;
  /** Whether identifiers of calls must be of few characters. */
  readonly plain_call_ids: boolean;
  /** Whether they get all texts of an answer as one. */
  readonly one_text: boolean;
  /** The field of a request that has stop sequences. */
  readonly stop_field: string;
}

/** All that the gateway knows of a protocol: a folder each, put together in its `index.ts`. */
export interface ProtocolDefinition {
  /** What it is called in a sentence. */
  readonly api: string;
  readonly path: string;
  readonly known_keys: KeyNames;
  /** What routing and money may know of a body. Raises invalid_request. */
  readonly readBody: (body: Fields) => BodyReading;
  /** The other protocol that a body is written in, as far as that is certain, and the field that shows it. */
  readonly meantFor: (body: Fields) => readonly [protocol: Protocol, field: string] | undefined;
  /** Where a request says how long its prompt is to be kept. */
  readonly lifetimes: WantedTexts<Lifetime>;
  readonly readUsage: UsageReader;
  readonly errors: ProtocolErrors;
  readonly texts: AnswerTexts;
  /** What a stream says while there is nothing to say: a whole event, or a comment where the protocol has no event for it. */
  readonly keep_alive: string;
  readonly adapter: ProtocolAdapter;
  readonly clients: ClientManners;
}
