type FairQueue = <T>(owner: string, work: () => Promise<T>) => Promise<T>;

/** Creates a fair queue: one piece of work at a time, round-robin by owner, with a turn of the event loop in between. */
export function createFairQueue(): FairQueue {
  const waiting = new Map<string, (() => void)[]>();
  let busy = false;

  function startNext(): void {
    for (const [owner, queue] of waiting) {
      waiting.delete(owner);
      const go = queue.shift()!;
      if (queue.length > 0) waiting.set(owner, queue);
      // In a later turn of the event loop; `busy` stays set until then.
      setImmediate(go);
      return;
    }
    busy = false;
  }

  return async (owner, work) => {
    if (busy) {
      await new Promise<void>((go) => {
        const queue = waiting.get(owner);
        if (queue === undefined) waiting.set(owner, [go]);
        else queue.push(go);
      });
    }
    busy = true;
    try {
      return await work();
    } finally {
      startNext();
    }
  };
}
