import type { GatewayConfig } from '../../contract/config.ts';
import { StartError } from '../../contract/start-error.ts';
import type { DryRun } from '../../explain/dry-run.ts';
import { recallRequest, replayRecord } from '../../explain/past-request.ts';
import type { Loaded } from '../../source/spec.ts';
import { openDatabase } from '../../store/database.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS } from '../exit-codes.ts';
import { commandLog } from '../with-database.ts';

/**
 * What the configuration of today would make of a request that the audit log remembers. Nothing runs, as the log keeps no
 * body. Raises StartError.
 */
export async function explainPastRequest(
  context: CommandContext,
  usable: { readonly loaded: Loaded; readonly config: GatewayConfig },
  request_id: string,
): Promise<DryRun> {
  const { config } = usable;
  const database = await openDatabase({ config, env: context.env, log: commandLog(context), wait: 'until-ready' });
  try {
    const remembered = await recallRequest(database, config, request_id);
    if (remembered !== undefined) return replayRecord(usable, remembered);
  } finally {
    await database.close();
  }
  throw new StartError(`the audit log has no request ${request_id}; appscli audit tail --json shows ids`, {
    exit_code: EXIT_FINDINGS,
  });
}
