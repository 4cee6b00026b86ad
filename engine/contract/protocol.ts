/** APIs for model requests: Messages, chat completions, Responses. The names are those of surfaces too. */
export const PROTOCOLS = ['messages', 'chat', 'responses'] as const;

/** The API a client or an upstream speaks. */
export type Protocol = (typeof PROTOCOLS)[number];

/** The API that clients of a surface speak; `undefined` for surfaces without model requests. */
export function protocolOf(surface: string): Protocol | undefined {
  return surface === 'count_tokens' ? 'messages' : PROTOCOLS.find((protocol) => protocol === surface);
}

/** The API an upstream is asked in for clients of a surface: their own where it has that, else the first of its own. */
export function askedIn(surface: string, protocols: readonly Protocol[]): Protocol {
  const own = protocolOf(surface);
  return own !== undefined && protocols.includes(own) ? own : protocols[0]!;
}

/** The least bound of an answer that an API takes; a request that is translated asks for no less. */
export const OUTPUT_BOUND_MIN: Readonly<Partial<Record<Protocol, number>>> = { responses: 16 };
