/** The protocols of model requests: Messages, chat completions, Responses. */
export const PROTOCOLS = ['messages', 'chat', 'responses'] as const;

/** What a client or an upstream speaks. */
export type Protocol = (typeof PROTOCOLS)[number];

/** The protocol of the model requests that a pipeline serves; `undefined` where it serves none. */
export function protocolOf(served: string): Protocol | undefined {
  return served === 'count_tokens' ? 'messages' : PROTOCOLS.find((protocol) => protocol === served);
}

/** The protocol an upstream is asked in: the client's own where the upstream has it, else the first of its own. */
export function askedIn(served: string, protocols: readonly Protocol[]): Protocol {
  const own = protocolOf(served);
  return own !== undefined && protocols.includes(own) ? own : protocols[0]!;
}

/** The least bound of an answer that a protocol takes; a request that is translated asks for no less. */
export const OUTPUT_BOUND_MIN: Readonly<Partial<Record<Protocol, number>>> = { responses: 16 };
