/** Group commit: items of many callers in few statements. */
export interface GroupCommit<Item, Result> {
  run(item: Item): Promise<Result>;
  /** Like `run`, for items without a waiting caller: joins the next execution, or starts one after `patience_ms`. */
  runSoon(item: Item): Promise<Result>;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/**
 * Creates a group commit with at most `lanes` executions of up to `max_items` items at once. If one fails and `isolates` says that a
 * single item may be the cause, its items are retried one by one, so that only one caller gets the error.
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
  let soon: NodeJS.Timeout | undefined;

  // Items that arrive in one turn of the event loop share a statement.
  const schedule = () => {
    if (scheduled || running >= lanes || queue.length === 0) return;
    scheduled = true;
    setImmediate(start);
  };
  const start = () => {
    scheduled = false;
    running++;
    executeBatch(queue.splice(0, max_items)).finally(() => {
      running--;
      schedule();
    });
    schedule();
  };
  const executeBatch = async (batch: readonly Waiting<Item, Result>[]): Promise<void> => {
    try {
      const results = await execute(batch.map(({ item }) => item));
      for (let i = 0; i < batch.length; i++) batch[i]!.resolve(results[i]!);
    } catch (error) {
      if (batch.length === 1 || !isolates(error)) {
        for (const { reject } of batch) reject(error);
        return;
      }
      for (const waiting of batch) await executeBatch([waiting]);
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
      if (soon === undefined) {
        soon = setTimeout(() => {
          soon = undefined;
          schedule();
        }, patience_ms);
      }
      return result;
    },
  };
}
