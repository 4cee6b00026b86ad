const PARTS = 10;

/** How requests of the last while ended: counted in tenths of the window, so that old ones leave it a tenth at a time. */
export interface Outcomes {
  /** @param caller whose request it was, where that is known */
  add(ok: boolean, now: number, caller?: string): void;
  /** Requests in the window, how many of them failed, and of those the most that one caller has. */
  count(now: number): { readonly all: number; readonly failed: number; readonly failed_of_one: number };
  clear(): void;
}

/** Requests of a tenth of the window. */
interface Part {
  /** Which tenth of time it counts now. */
  number: number;
  all: number;
  failed: number;
  readonly failed_of: Map<string, number>;
}

/** Counts over a window of this many milliseconds; `now` is any clock that does not go back. */
export function createOutcomes(window_ms: number): Outcomes {
  const part_ms = window_ms / PARTS;
  const parts = Array.from({ length: PARTS }, (): Part => {
    return { number: Number.NEGATIVE_INFINITY, all: 0, failed: 0, failed_of: new Map() };
  });
  return {
    add(ok, now, caller) {
      const number = Math.floor(now / part_ms);
      const part = parts[number % PARTS]!;
      if (part.number !== number) {
        part.number = number;
        part.all = 0;
        part.failed = 0;
        part.failed_of.clear();
      }
      part.all += 1;
      if (ok) return;
      part.failed += 1;
      if (caller !== undefined) part.failed_of.set(caller, (part.failed_of.get(caller) ?? 0) + 1);
    },
    count(now) {
      const oldest = Math.floor(now / part_ms) - PARTS + 1;
      const failed_of = new Map<string, number>();
      let [all, failed, failed_of_one] = [0, 0, 0];
      for (const part of parts) {
        if (part.number < oldest) continue;
        all += part.all;
        failed += part.failed;
        for (const [caller, count] of part.failed_of) {
          const sum = (failed_of.get(caller) ?? 0) + count;
          failed_of.set(caller, sum);
          failed_of_one = Math.max(failed_of_one, sum);
        }
      }
      return { all, failed, failed_of_one };
    },
    clear() {
      for (const part of parts) part.number = Number.NEGATIVE_INFINITY;
    },
  };
}
