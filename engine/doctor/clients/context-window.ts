/** What long-context models of a gateway take, where nothing better is known. In tokens. */
export const USUAL_WINDOW = 500_000;

/** No model takes more; a catalogue that says so means something else. In tokens. */
export const LARGEST_WINDOW = 2_000_000;

/** Part of the context window at which a client has to shorten its conversation. */
export const COMPACT_AT = 0.95;

/** What is wrong with a context window as a file says it; `better` is what to write. */
export function judgeWindow(
  given: unknown,
  key: string,
  usual: number,
): { readonly found: string; readonly better: number } | undefined {
  if (given === undefined) return { found: `${key} is missing`, better: usual };
  const meant = typeof given === 'string' ? Number(given.replaceAll(/[_, ]/g, '')) : given;
  if (typeof meant !== 'number' || !Number.isSafeInteger(meant) || meant <= 0) {
    return { found: `${key} is no number of tokens`, better: usual };
  }
  if (meant > LARGEST_WINDOW) {
    return {
      found: `${key} is ${meant}, more than any model takes: conversations are not shortened in time`,
      better: usual,
    };
  }
  return meant === given ? undefined : { found: `${key} is a text in quotes, where a number belongs`, better: meant };
}
