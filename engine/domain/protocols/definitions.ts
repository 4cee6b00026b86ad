/** The protocols of model requests. One more is a folder and a line here. @module */

import type { GatewayConfig } from '../../base/contract/config.ts';
import { type Protocol, protocolOf } from '../../base/contract/protocol.ts';
import { chatProtocol } from './chat/index.ts';
import type { ProtocolDefinition } from './definition.ts';
import { messagesProtocol } from './messages/index.ts';
import { responsesProtocol } from './responses/index.ts';
import { type AnswerTexts, unknownTexts } from './rewriting.ts';

/** Each protocol by its name. */
export const DEFINITIONS: Readonly<Record<Protocol, ProtocolDefinition>> = {
  messages: messagesProtocol,
  chat: chatProtocol,
  responses: responsesProtocol,
};

/** The protocol with this name; `undefined` for the other names that a pipeline may serve. */
export function definitionNamed(protocol: string | undefined): ProtocolDefinition | undefined {
  return protocol !== undefined && Object.hasOwn(DEFINITIONS, protocol) ? DEFINITIONS[protocol as Protocol] : undefined;
}

/** The protocol with this name; Messages for the other names that a pipeline may serve. */
export function definitionOf(protocol: string | undefined): ProtocolDefinition {
  return definitionNamed(protocol) ?? messagesProtocol;
}

/** Whether an upstream of a configuration expects state of tool calls back. */
export function wantsCallState({ upstreams }: Pick<GatewayConfig, 'upstreams'>): boolean {
  return upstreams.some(({ protocols }) => protocols.some((protocol) => DEFINITIONS[protocol].kept.call_state));
}

/** Paths beside chat completions of the API that has them. */
const OTHER_CHAT_PATHS =
  /\/(?:chat|completions|embeddings|images|audio|videos|batches|files|uploads|moderations|fine_tuning|vector_stores|evals|realtime)\b/i;

/** Version headers of clients of the Messages API. */
const MESSAGES_HEADERS = ['anthropic-version', 'vendor-version'];

/** The protocol of a path that no pipeline for models serves; Messages and chat completions have files. */
export function definitionOfPath(
  path: string,
  headers: Readonly<Record<string, string | string[] | undefined>> = {},
): ProtocolDefinition {
  if (/\/(?:threads|assistants)\b/i.test(path)) return chatProtocol;
  if (/\/messages\b/i.test(path)) return messagesProtocol;
  if (/\/responses\b/i.test(path)) return responsesProtocol;
  if (!OTHER_CHAT_PATHS.test(path)) return messagesProtocol;
  return MESSAGES_HEADERS.some((name) => headers[name] !== undefined) ? messagesProtocol : chatProtocol;
}

/** The protocol for errors of a request. */
export function definitionFor(
  protocol: string,
  { url, headers }: { readonly url: string; readonly headers: Parameters<typeof definitionOfPath>[1] },
): ProtocolDefinition {
  return protocol === 'none' ? definitionOfPath(url.split('?', 1)[0]!, headers) : definitionOf(protocol);
}

/** Where texts stand in answers of a pipeline's protocol. */
export function textsOf(protocol: string | undefined): AnswerTexts {
  const served = protocolOf(protocol ?? '');
  return served === undefined ? unknownTexts : DEFINITIONS[served].texts;
}

/** Keep-alive of a silent stream; `undefined` for pipelines that serve no model requests. */
export function keepAliveOf(protocol: string | undefined): string | undefined {
  return definitionNamed(protocol)?.stream.keep_alive;
}
