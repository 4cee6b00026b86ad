/** No wait is expected to be so long: it ends a test that waits in vain before the runner does, with the reason. */
const VAIN_MS = 120_000;

/** Looks every few milliseconds, and more rarely the longer it takes, until `look` gives a value that is neither `undefined` nor `false`. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  vain_ms = VAIN_MS,
): Promise<T> {
  const began = performance.now();
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    const waited_ms = performance.now() - began;
    if (waited_ms > vain_ms) throw new Error(`waited ${vain_ms} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(waited_ms / 10, 2), 50)));
  }
}
