import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Window } from '../../base/contract/config.ts';
import { jsonText, printable, printableLines } from '../../base/kit/text/printable.ts';
import { wrapText } from '../../base/kit/text/wrap-text.ts';
import { openDatabase } from '../../base/store/database.ts';
import { type FactPage, factPages } from '../../domain/audit/request-records.ts';
import { readSpending } from '../../domain/budget/reports/spending.ts';
import { loadToRun } from '../gateway/reload.ts';
import type { Change, Usable } from '../simulate/diff/change.ts';
import { diffConfigurations } from '../simulate/diff/index.ts';
import { diffRequests, type RequestChanges } from '../simulate/diff/requests/index.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { configurationError, EXIT_FINDINGS, EXIT_OK } from './exit-codes.ts';
import { reportFailure } from './failure.ts';
import { moment, option } from './options.ts';
import { formatMinute, formatMoment } from './times.ts';
import { commandLog } from './with-database.ts';

interface DiffOptions {
  readonly old: string;
  readonly new: string;
  readonly ledger?: true;
  /** Since when requests of the audit log are looked at. */
  readonly audit?: Date;
  readonly exitCode?: true;
  readonly json?: true;
}

async function diff(context: CommandContext, given: DiffOptions): Promise<number> {
  const { terminal } = context;
  const [before, after] = await bothUsable(context, given.old, given.new);
  const { changes, notes } =
    given.ledger || given.audit
      ? await diffWithDatabase(context, [before, after], given)
      : { changes: await diffConfigurations(before, after), notes: [] };
  const all = [...changes, ...notes];
  if (given.json) terminal.data(`${jsonText(all, 2)}\n`);
  else if (all.length === 0) terminal.info('Nothing changes for anybody.\n');
  else terminal.data(printableLines(describeChanges(all, terminal.columns)));
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
  if (!existsSync(file)) throw configurationError(`${file} does not exist`);
  const stages = await context.stages();
  const { config, loaded } = await loadToRun(file, { stages, env: context.env, environment: 'ignored' });
  const { pipelines, policies } = loaded;
  return { config, pipelines, policies, directory: dirname(resolve(file)) };
}

/** Compares with the ledger and the audit log of the new configuration's database at hand. */
async function diffWithDatabase(
  context: CommandContext,
  [before, after]: readonly [Usable, Usable],
  { ledger, audit }: DiffOptions,
): Promise<RequestChanges> {
  const { config } = after;
  const database = await openDatabase({ config, env: context.env, log: commandLog(context), wait: 'until-ready' });
  const time_zone = config.spend_limits?.time_zone ?? 'UTC';
  const read = ledger && ((window: Window) => readSpending(database, window, time_zone));
  try {
    const changes = await diffConfigurations(before, after, read);
    if (audit === undefined) return { changes, notes: [] };
    const of_requests = await diffRequests(before, after, {
      read: (wish) => watched(context, factPages(database, { since: audit, until: new Date() }, wish)),
      period: `since ${formatMoment(audit)}`,
    });
    return { changes: [...changes, ...of_requests.changes], notes: of_requests.notes };
  } finally {
    await database.close();
  }
}

/** Tells a person at a terminal how far it has come. */
async function* watched({ terminal }: CommandContext, pages: AsyncIterable<FactPage>): AsyncIterable<FactPage> {
  let requests = 0;
  for await (const page of pages) {
    requests += page.rows.length;
    if (terminal.interactive) terminal.rewrite(`${requests} requests, up to ${formatMinute(page.at)}`);
    yield page;
  }
  if (requests > 0 && terminal.interactive) terminal.rewrite('');
}

const TITLES: Readonly<Record<Change['section'], string>> = {
  models: 'Models',
  access: 'Access rules',
  policies: 'Policies',
  routes: 'Routes',
  limits: 'Limits',
  prices: 'Prices and sizes',
  upstreams: 'Upstreams',
  pipelines: 'Pipelines',
  settings: 'Other settings',
  requests: 'Requests of the past, by what the audit log has of them',
};

/** What is different in pipelines, told once for all that it is alike in. */
function withPipelinesTogether(changes: readonly Change[]): readonly Change[] {
  const alike = Map.groupBy(changes, ({ section, subject, change, details }) =>
    JSON.stringify([section, section === 'pipelines' || subject, change, details]),
  );
  return [...alike.values()].map((own) => ({ ...own[0]!, subject: own.map(({ subject }) => subject).join(', ') }));
}

/** Lines: a title per section, a paragraph per change. */
export function describeChanges(changes: readonly Change[], line_width: number): string[] {
  const sections = Map.groupBy(withPipelinesTogether(changes), ({ section }) => section);
  return [...sections].flatMap(([section, own], i) => [
    ...(i === 0 ? [] : ['']),
    TITLES[section],
    ...own.flatMap(({ subject, change, details = [] }) => [
      ...wrapText(printable(`${subject}: ${change}`), line_width, '  ', '    '),
      ...details.flatMap((detail) => wrapText(printable(detail), line_width, '    ', '      ')),
    ]),
  ]);
}

/** `appscli diff`. */
export const commands: readonly CommandRow[] = [
  {
    arguments: [
      ['<old>', 'the gateway.yaml in force'],
      ['<new>', 'the gateway.yaml to compare it with'],
    ],
    options: [
      option('--ledger', 'look up who is already over a changed limit, in the database of the new one'),
      option(
        '--audit <since>',
        'tell what requests since then would have met, by person, from the audit log in that database: 7d, 12h or a date',
        moment,
      ),
      option('--exit-code', 'exit with 1 when something changes'),
    ],
    json: 'print a JSON array of changes',
    examples: [
      'appscli diff gateway.yaml gateway.new.yaml',
      'appscli diff --ledger old/gateway.yaml gateway.yaml',
      'appscli diff --audit 7d gateway.yaml gateway.new.yaml',
    ],
    run: diff,
  },
];
