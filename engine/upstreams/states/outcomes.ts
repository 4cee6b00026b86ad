const PARTS = 10;

/** How requests of the last while ended: counted in tenths of the window, so that old ones leave it a tenth at a time. */
export interface Outcomes {
  add(ok: boolean, now: number): void;
  /** Requests in the window, and how many of them failed. */
  count(now: number): { readonly all: number; readonly failed: number };
  clear(): void;
}

/** Counts over a window of this many milliseconds; `now` is any clock that does not go back. */
export function createOutcomes(window_ms: number): Outcomes {
  const part_ms = window_ms / PARTS;
  const all = new Array<number>(PARTS).fill(0);
  const failed = new Array<number>(PARTS).fill(0);
  /** Which part of time each place counts now. */
  const parts = new Array<number>(PARTS).fill(Number.NEGATIVE_INFINITY);
  return {
    add(ok, now) {
      const part = Math.floor(now / part_ms);
      const place = part % PARTS;
      if (parts[place] !== part) {
        parts[place] = part;
        all[place] = 0;
        failed[place] = 0;
      }
      all[place]! += 1;
      if (!ok) failed[place]! += 1;
    },
    count(now) {
      const oldest = Math.floor(now / part_ms) - PARTS + 1;
      let sum = 0;
      let sum_failed = 0;
      for (let place = 0; place < PARTS; place++) {
        if (parts[place]! < oldest) continue;
        sum += all[place]!;
        sum_failed += failed[place]!;
      }
      return { all: sum, failed: sum_failed };
    },
    clear: () => void parts.fill(Number.NEGATIVE_INFINITY),
  };
}
