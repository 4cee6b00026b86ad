import type { Database } from '../../engine/base/store/database.ts';

const unanswered = new WeakMap<Database, { count: number }>();

/**
 * Counts the statements of a database's pipelines from now on: a client may have its response while its reservation is still
 * on its way.
 */
export function watchLanes(database: Database): void {
  const statements = { count: 0 };
  unanswered.set(database, statements);
  const lanes = database.lanes();
  const { free } = lanes;
  lanes.free = () => {
    const lane = free();
    if (lane === undefined) return undefined;
    return {
      send(name, text, values) {
        const sent = lane.send(name, text, values);
        statements.count++;
        const over = () => {
          statements.count--;
        };
        sent.answered.then(over, over);
        return sent;
      },
    };
  };
}

/** How many statements of a watched database's pipelines are on their way; 0 for another. */
export const statementsOnLanes = (database: Database): number => unanswered.get(database)?.count ?? 0;
