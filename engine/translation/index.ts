/**
 * The APIs that can be translated into each other.
 * @module
 */
import type { ProtocolAdapter } from './adapter.ts';
import { chatAdapter } from './chat/index.ts';
import { messagesAdapter } from './messages/index.ts';
import type { Protocol } from './protocol.ts';
import { responsesAdapter } from './responses/index.ts';

/** The adapter of each protocol. */
export const ADAPTERS: Readonly<Record<Protocol, ProtocolAdapter>> = {
  messages: messagesAdapter,
  chat: chatAdapter,
  responses: responsesAdapter,
};
