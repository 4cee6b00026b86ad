/**
 * The protocols of model requests. One more is a folder and a line here.
 * @module
 */

import { type Protocol, protocolOf } from '../contract/protocol.ts';
import { chatProtocol } from './chat/index.ts';
import type { ProtocolDefinition } from './definition.ts';
import { messagesProtocol } from './messages/index.ts';
import { responsesProtocol } from './responses/index.ts';
import { type AnswerTexts, unknownTexts } from './rewriting/answer-texts.ts';

/** Each protocol by its name. */
export const DEFINITIONS: Readonly<Record<Protocol, ProtocolDefinition>> = {
  messages: messagesProtocol,
  chat: chatProtocol,
  responses: responsesProtocol,
};

/** The protocol with this name; Messages for the other names that a pipeline may serve. */
export function definitionOf(protocol: string | undefined): ProtocolDefinition {
  return protocol === 'chat' || protocol === 'responses' ? DEFINITIONS[protocol] : messagesProtocol;
}

/** The protocol that a path belongs to which no pipeline serves. */
export function definitionOfPath(path: string): ProtocolDefinition {
  if (/\/(?:completions|embeddings)\b/i.test(path)) return chatProtocol;
  return /\/responses\b/i.test(path) ? responsesProtocol : messagesProtocol;
}

/** Where texts stand in answers of a pipeline's protocol. */
export function textsOf(protocol: string | undefined): AnswerTexts {
  const served = protocolOf(protocol ?? '');
  return served === undefined ? unknownTexts : DEFINITIONS[served].texts;
}

/** What a silent stream of a pipeline's protocol says; `undefined` for the names that are none of model requests. */
export function keepAliveOf(protocol: string | undefined): string | undefined {
  return protocol !== undefined && Object.hasOwn(DEFINITIONS, protocol)
    ? DEFINITIONS[protocol as Protocol].keep_alive
    : undefined;
}
