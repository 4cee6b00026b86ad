import type { KeyNames } from '../contract/key-names.ts';
import type { BodyReading, Fields } from './body/fields.ts';
import type { ProtocolErrors } from './errors.ts';
import type { AnswerTexts } from './rewriting/answer-texts.ts';
import type { ProtocolAdapter } from './translation/adapter.ts';
import type { UsageReader } from './usage/reading.ts';

/** All that the gateway knows of a protocol: a folder each, put together in its `index.ts`. */
export interface ProtocolDefinition {
  /** Where it takes model requests. */
  readonly path: string;
  /** The keys that matter in its bodies. */
  readonly known_keys: KeyNames;
  /** What routing and money may know of a body. Raises invalid_request. */
  readonly readBody: (body: Fields) => BodyReading;
  /** What an answer says about usage. */
  readonly readUsage: UsageReader;
  readonly errors: ProtocolErrors;
  /** Where the texts of its answers stand. */
  readonly texts: AnswerTexts;
  /** What a stream says while there is nothing to say: a whole event, or a comment where the protocol has no event for it. */
  readonly keep_alive: string;
  /** Its translation into and from every other. */
  readonly adapter: ProtocolAdapter;
}
