import { sumAgain } from '../../money/reports/sum-again.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK, usageError } from '../exit-codes.ts';
import { showReport } from '../show.ts';
import { withDatabase } from '../with-database.ts';

/** What `appscli ledger sum` may be given; days are of UTC. */
export interface SumOptions {
  readonly config: string;
  readonly since?: string;
  readonly until?: string;
  readonly json?: true;
}

/** `appscli ledger sum`: the sums that reports read, computed anew from the ledger. */
export async function sum(context: CommandContext, { config, since, until, json }: SumOptions): Promise<number> {
  if (since !== undefined && until !== undefined && since >= until) {
    throw usageError('--since must be before --until, which is not included');
  }
  const lines = await withDatabase(context, config, ({ database }) => sumAgain(database, { since, until }));
  showReport(context, json, { lines }, () => [`Summed up ${counted(lines, 'line')} of the ledger anew.`]);
  return EXIT_OK;
}
