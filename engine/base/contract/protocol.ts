/** The protocols of model requests: Messages, chat completions, Responses. */
export const PROTOCOLS = ['messages', 'chat', 'responses'] as const;

/** The protocol of a client or upstream. */
export type Protocol = (typeof PROTOCOLS)[number];

const [FIRST, ...OTHERS] = PROTOCOLS;

/** What a pipeline can serve: requests to models, the count of tokens of the first protocol, the list of models, others. */
export const SERVED = [FIRST, 'count_tokens', 'models', ...OTHERS, 'none'] as const;

/** What a pipeline serves. */
export type Served = (typeof SERVED)[number];

/** The protocol of the model requests that a pipeline serves; `undefined` where it serves none. */
export function protocolOf(served: string): Protocol | undefined {
  return served === 'count_tokens' ? FIRST : PROTOCOLS.find((protocol) => protocol === served);
}

/** The protocol for an upstream: the client's, if the upstream speaks it, otherwise the first of the upstream. */
export function negotiatedProtocol(served: string, protocols: readonly Protocol[]): Protocol {
  const own = protocolOf(served);
  return own !== undefined && protocols.includes(own) ? own : protocols[0]!;
}
