/** Runs work of somebody once it is their turn; resolves with what it comes to. */
export type InTurn = <T>(owner: string, work: () => Promise<T>) => Promise<T>;

/**
 * Makes what lets one piece of work run at a time, and the event loop turn in between. Those whose work waits take turns, however
 * much one of them has.
 */
export function createTurns(): InTurn {
  /** By whose they are, in the order in which these have their turns. */
  const waiting = new Map<string, (() => void)[]>();
  let busy = false;

  /** Lets whoever has waited longest for a turn have it; a caller with more to do waits again, behind all others. */
  function callNext(): void {
    for (const [owner, turns] of waiting) {
      waiting.delete(owner);
      const go = turns.shift()!;
      if (turns.length > 0) waiting.set(owner, turns);
      // In a later turn of the event loop; until then nobody else may begin.
      setImmediate(go);
      return;
    }
    busy = false;
  }

  return async (owner, work) => {
    if (busy) {
      await new Promise<void>((go) => {
        const turns = waiting.get(owner);
        if (turns === undefined) waiting.set(owner, [go]);
        else turns.push(go);
      });
    }
    busy = true;
    try {
      return await work();
    } finally {
      callNext();
    }
  };
}
