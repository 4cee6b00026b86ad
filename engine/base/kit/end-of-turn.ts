let ending: Promise<void> | undefined;

/** Batches continuations per turn of the event loop: running the same step of many requests in a row is kind to the CPU caches. */
export function endOfTurn(): Promise<void> {
  ending ??= new Promise((resolve) => {
    setImmediate(() => {
      ending = undefined;
      resolve();
    });
  });
  return ending;
}
