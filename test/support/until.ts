/** Longest a test waits for something before it fails, in milliseconds. */
const PATIENCE_MS = 30_000;

/**
 * Looks every few milliseconds, and more rarely the longer it takes, until `look` gives a value that is neither `undefined`
 * nor `false`; fails after half a minute, which only a busy machine needs.
 */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  patience_ms = PATIENCE_MS,
): Promise<T> {
  const began = performance.now();
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    const waited_ms = performance.now() - began;
    if (waited_ms > patience_ms) throw new Error(`waited ${patience_ms} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(waited_ms / 10, 2), 50)));
  }
}
