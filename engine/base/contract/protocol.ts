/**
 * The protocols of model requests, and the paths of the requests. Each has a folder of its name in `domain/protocols/`:
 * `npm run generate` after a change. @module
 */

/** Path of model requests by protocol. */
export const PROTOCOL_PATHS = {
  messages: '/v1/messages',
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
} as const satisfies Readonly<Record<string, `/v1/${string}`>>;

/** The protocol of a client or upstream. */
export type Protocol = keyof typeof PROTOCOL_PATHS;

/** All protocols. */
export const PROTOCOLS = Object.keys(PROTOCOL_PATHS) as readonly Protocol[];

const [FIRST, ...OTHERS] = PROTOCOLS as readonly [Protocol, ...Protocol[]];

/** The protocol that counts tokens, that every gateway serves, and that errors have on paths without a protocol. */
export const MAIN_PROTOCOL: Protocol = FIRST;

/** Path of requests that count tokens. */
export const COUNT_PATH = `${PROTOCOL_PATHS[MAIN_PROTOCOL]}/count_tokens`;

/** What a pipeline serves: requests to models, the count of tokens, the list of models, others. */
export type Served = Protocol | 'count_tokens' | 'models' | 'none';

/** What a pipeline can serve. */
export const SERVED: readonly Served[] = [FIRST, 'count_tokens', 'models', ...OTHERS, 'none'];

/** The protocol of the model requests that a pipeline serves; `undefined` where it serves none. */
export function protocolOf(served: string): Protocol | undefined {
  return served === 'count_tokens' ? MAIN_PROTOCOL : PROTOCOLS.find((protocol) => protocol === served);
}

/** The protocol for an upstream: the client's, if the upstream speaks it, otherwise the first of the upstream. */
export function negotiatedProtocol(served: string, protocols: readonly Protocol[]): Protocol {
  const own = protocolOf(served);
  return own !== undefined && protocols.includes(own) ? own : protocols[0]!;
}
