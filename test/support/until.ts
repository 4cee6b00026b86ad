/** Longest a test waits for something before it fails, in milliseconds. */
const PATIENCE_MS = 15_000;

/** Looks every few milliseconds until `look` gives a value that is neither `undefined` nor `false`; fails after 15 s. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  patience_ms = PATIENCE_MS,
): Promise<T> {
  const deadline = performance.now() + patience_ms;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`waited ${patience_ms} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
