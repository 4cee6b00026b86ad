import type { KeyNames } from '../contract/key-names.ts';
import type { BodyReading, Fields } from './body/fields.ts';
import type { ProtocolErrors } from './errors.ts';
import type { AnswerTexts } from './rewriting.ts';
import type { ProtocolAdapter } from './translation/conversation.ts';
import type { UsageReader } from './usage.ts';

/** All that the gateway knows of a protocol: a folder each, put together in its `index.ts`. */
export interface ProtocolDefinition {
  readonly path: string;
  readonly known_keys: KeyNames;
  /** What routing and money may know of a body. Raises invalid_request. */
  readonly readBody: (body: Fields) => BodyReading;
  readonly readUsage: UsageReader;
  readonly errors: ProtocolErrors;
  readonly texts: AnswerTexts;
  /** What a stream says while there is nothing to say: a whole event, or a comment where the protocol has no event for it. */
  readonly keep_alive: string;
  readonly adapter: ProtocolAdapter;
}
