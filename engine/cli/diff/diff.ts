import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { loadToRun } from '../../gateway/load-configuration.ts';
import { jsonText, printable, printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { readSpending } from '../../money/reports/spending.ts';
import type { Change, Usable } from '../../simulate/diff/change.ts';
import { diffConfigurations } from '../../simulate/diff/index.ts';
import { openDatabase } from '../../store/database.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK } from '../exit-codes.ts';
import { reportFailure } from '../failure.ts';
import { commandLog } from '../with-database.ts';

/** `appscli diff`: what the new configuration changes for whom. */
export async function diff(
  context: CommandContext,
  old_file: string,
  new_file: string,
  given: { readonly ledger?: true; readonly exitCode?: true; readonly json?: true },
): Promise<number> {
  const { terminal } = context;
  const [before, after] = await bothUsable(context, old_file, new_file);
  const changes = given.ledger ? await diffWithLedger(context, before, after) : await diffConfigurations(before, after);
  if (given.json) terminal.data(`${jsonText(changes, 2)}\n`);
  else if (changes.length === 0) terminal.info('Nothing changes for anybody.\n');
  else terminal.data(printableLines(describeChanges(changes, terminal.columns)));
  return given.exitCode && changes.length > 0 ? EXIT_FINDINGS : EXIT_OK;
}

/** Loads both configurations; what is wrong with the first is told even when the second is wrong, too. Raises StartError. */
async function bothUsable(context: CommandContext, old_file: string, new_file: string): Promise<[Usable, Usable]> {
  const [before, after] = await Promise.allSettled([usable(context, old_file), usable(context, new_file)]);
  if (before.status === 'fulfilled' && after.status === 'fulfilled') return [before.value, after.value];
  if (before.status === 'fulfilled') throw (after as PromiseRejectedResult).reason;
  if (after.status === 'fulfilled') throw before.reason;
  await reportFailure(before.reason, context.terminal, context.env);
  throw after.reason;
}

async function usable(context: CommandContext, file: string): Promise<Usable> {
  if (!existsSync(file)) throw new StartError(`${file} does not exist`, { exit_code: EXIT_CONFIGURATION });
  const stages = await context.stages();
  const { config, loaded } = await loadToRun(file, { stages, env: context.env, environment: 'ignored' });
  const { pipelines, policies } = loaded;
  return { config, pipelines, policies, directory: dirname(resolve(file)) };
}

/** Compares with the ledger of the new configuration's database at hand. */
async function diffWithLedger(context: CommandContext, before: Usable, after: Usable): Promise<readonly Change[]> {
  const { config } = after;
  const database = await openDatabase({ config, env: context.env, log: commandLog(context), wait: 'until-ready' });
  const time_zone = config.spend_limits?.time_zone ?? 'UTC';
  try {
    return await diffConfigurations(before, after, (window) => readSpending(database, window, time_zone));
  } finally {
    await database.close();
  }
}

const TITLES: Readonly<Record<Change['section'], string>> = {
  models: 'Models',
  access: 'Access',
  policies: 'Policies',
  routes: 'Routes',
  limits: 'Limits',
  prices: 'Prices and sizes',
  upstreams: 'Upstreams',
  pipelines: 'Pipelines',
  settings: 'Other settings',
};

/** Lines: a title per section, a paragraph per change. */
export function describeChanges(changes: readonly Change[], line_width: number): string[] {
  const sections = Map.groupBy(changes, ({ section }) => section);
  return [...sections].flatMap(([section, own], i) => [
    ...(i === 0 ? [] : ['']),
    TITLES[section],
    ...own.flatMap(({ subject, change, details = [] }) => [
      ...wrapText(printable(`${subject}: ${change}`), line_width, '  ', '    '),
      ...details.flatMap((detail) => wrapText(printable(detail), line_width, '    ', '      ')),
    ]),
  ]);
}
