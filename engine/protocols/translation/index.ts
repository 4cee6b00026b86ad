/**
 * The APIs that can be translated into each other.
 * @module
 */

import type { Protocol } from '../../contract/protocol.ts';
import { chatAdapter } from '../chat/index.ts';
import { messagesAdapter } from '../messages/index.ts';
import { responsesAdapter } from '../responses/index.ts';
import type { ProtocolAdapter } from './adapter.ts';

/** The adapter of each protocol. */
export const ADAPTERS: Readonly<Record<Protocol, ProtocolAdapter>> = {
  messages: messagesAdapter,
  chat: chatAdapter,
  responses: responsesAdapter,
};
