/** How long each part of a start took. */
export interface StartPhases {
  /** Ends a part: what went by since the one before, in milliseconds, is its. */
  end(name: string): void;
  /** Milliseconds by part, in order, and the whole as `total`. */
  readonly durations_ms: Readonly<Record<string, number>>;
}

/** Begins with the start of the process: what went by until now is that of `program`, reading the program itself. */
export function createStartPhases(): StartPhases {
  const durations_ms: Record<string, number> = {};
  let last = 0;
  const end = (name: string) => {
    const now = performance.now();
    durations_ms[name] = Math.round(now - last);
    durations_ms.total = Math.round(now);
    last = now;
  };
  end('program');
  return { end, durations_ms };
}
