/** Work of many callers, carried by few statements. */
export interface GroupCommit<Item, Result> {
  run(item: Item): Promise<Result>;
  /** Like `run`, for what nobody waits for: it goes with the next execution, which it asks for only after `patience_ms`. */
  runSoon(item: Item): Promise<Result>;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/**
 * Creates a group commit: at most `lanes` executions at a time, each taking up to `max_items` of what has queued.
 * `execute` gives one result per item, in order. When it fails and `isolates` says that one item may be to blame, the
 * items are tried one by one, so that only the culprit's caller sees the failure.
 */
export function createGroupCommit<Item, Result>(options: {
  readonly lanes: number;
  readonly max_items: number;
  readonly patience_ms?: number;
  execute(items: readonly Item[]): Promise<readonly Result[]>;
  isolates(error: unknown): boolean;
}): GroupCommit<Item, Result> {
  const { lanes, max_items, patience_ms = 0, execute, isolates } = options;
  const queue: Waiting<Item, Result>[] = [];
  let running = 0;
  let scheduled = false;
  let patience: NodeJS.Timeout | undefined;

  // Everything that arrives in one turn of the event loop shares a statement.
  const schedule = () => {
    if (scheduled || running >= lanes || queue.length === 0) return;
    scheduled = true;
    setImmediate(start);
  };
  const start = () => {
    scheduled = false;
    running++;
    carry(queue.splice(0, max_items)).finally(() => {
      running--;
      schedule();
    });
    schedule();
  };
  const carry = async (batch: readonly Waiting<Item, Result>[]): Promise<void> => {
    try {
      const results = await execute(batch.map(({ item }) => item));
      for (let i = 0; i < batch.length; i++) batch[i]!.resolve(results[i]!);
    } catch (error) {
      if (batch.length === 1 || !isolates(error)) {
        for (const { reject } of batch) reject(error);
        return;
      }
      for (const waiting of batch) await carry([waiting]);
    }
  };

  const enqueue = (item: Item) =>
    new Promise<Result>((resolve, reject) => {
      queue.push({ item, resolve, reject });
    });

  return {
    run(item) {
      const result = enqueue(item);
      schedule();
      return result;
    },
    runSoon(item) {
      const result = enqueue(item);
      if (patience === undefined) {
        patience = setTimeout(() => {
          patience = undefined;
          schedule();
        }, patience_ms);
      }
      return result;
    },
  };
}
