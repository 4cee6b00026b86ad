let ending: Promise<void> | undefined;

/**
 * Resolves when everything that arrived in this turn of the event loop was dealt with. Who waits for the same turn goes on
 * together: work that is done for one after the other, the same step each, finds its code and data in the processor's cache.
 */
export function endOfTurn(): Promise<void> {
  ending ??= new Promise((resolve) => {
    setImmediate(() => {
      ending = undefined;
      resolve();
    });
  });
  return ending;
}
