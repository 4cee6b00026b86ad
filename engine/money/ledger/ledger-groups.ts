import type { MoveDecision } from '../../contract/services.ts';
import { createGroupCommit, type GroupCommit } from '../../kit/group-commit.ts';
import { isPermanent } from '../../store/store-errors.ts';
import type { LateSettlement, LedgerStatements, Move, TopUp } from './ledger-statements.ts';

/** What a ledger does for many requests at once, beside reserving and settling. */
export interface LedgerGroups {
  readonly late: GroupCommit<LateSettlement, boolean>;
  readonly moves: GroupCommit<Move, MoveDecision | undefined>;
  readonly releases: GroupCommit<string, void>;
  readonly top_ups: GroupCommit<TopUp, void>;
}

const MAX_BATCH = 500;
/** They are done one by one, and every version of a counter within a transaction makes the next one slower to find. */
const MOVES_MAX = 32;
/** One late settlement waits for the disk while another works. */
const LATE_LANES = 2;
/** What is topped up within this time shares a statement. */
const TOP_UP_PATIENCE_MS = 20;

/** Creates the groups of a ledger. */
export function createLedgerGroups(statements: LedgerStatements): LedgerGroups {
  const batches = { max_items: MAX_BATCH, isolates: isPermanent };
  return {
    late: createGroupCommit({ ...batches, lanes: LATE_LANES, execute: (late) => statements.settleLate(late) }),
    moves: createGroupCommit({
      ...batches,
      max_items: MOVES_MAX,
      lanes: 1,
      execute: (moves) => statements.move(moves),
    }),
    releases: createGroupCommit({
      ...{ ...batches, lanes: 1 },
      execute: async (ids) => Array<void>(ids.length).fill(await statements.release(ids)),
    }),
    top_ups: createGroupCommit({
      ...{ ...batches, lanes: 1, patience_ms: TOP_UP_PATIENCE_MS },
      execute: async (top_ups) => Array<void>(top_ups.length).fill(await statements.topUp(top_ups)),
    }),
  };
}
