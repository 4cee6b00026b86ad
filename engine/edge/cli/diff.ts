import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { SpendWindow } from '../../base/contract/windows.ts';
import { jsonText, printableLines } from '../../base/kit/text/printable.ts';
import { type FactPage, factPages } from '../../domain/audit/request-records.ts';
import { readSpending } from '../../domain/budget/reports/spending.ts';
import type { Change, Usable } from '../simulate/diff/change.ts';
import { diffConfigurations } from '../simulate/diff/index.ts';
import { diffRequests, type RequestChanges } from '../simulate/diff/requests.ts';
import {
  type CommandContext,
  type CommandRow,
  configurationError,
  dayOrMoment,
  EXIT_FINDINGS,
  EXIT_OK,
  type Flags,
  option,
} from './commands.ts';
import { reportFailure } from './main.ts';
import { apart, formatMinute, formatMoment, paragraph } from './output.ts';
import { loadConfig, momentIn, useDatabase } from './with-database.ts';

interface DiffOptions extends Readonly<Record<'old' | 'new', string>>, Flags<'ledger' | 'exitCode' | 'json'> {
  readonly audit?: Date | string;
}

async function diff(context: CommandContext, options: DiffOptions): Promise<number> {
  const { terminal } = context;
  const [before, after] = await bothUsable(context, options.old, options.new);
  const { changes, notes } =
    options.ledger || options.audit
      ? await diffWithDatabase(context, [before, after], options)
      : { changes: await diffConfigurations(before, after), notes: [] };
  const all = [...changes, ...notes];
  if (options.json) terminal.data(`${jsonText(all, 2)}\n`);
  else if (all.length === 0) terminal.info('No changes.\n');
  else terminal.data(printableLines(describeChanges(all)));
  return options.exitCode && changes.length > 0 ? EXIT_FINDINGS : EXIT_OK;
}

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
  const { config, loaded } = await loadConfig(context, file);
  const { pipelines, policies } = loaded;
  return { config, pipelines, policies, directory: dirname(resolve(file)) };
}

async function diffWithDatabase(
  context: CommandContext,
  [before, after]: readonly [Usable, Usable],
  { ledger, audit }: DiffOptions,
): Promise<RequestChanges> {
  const time_zone = after.config.spend_limits?.time_zone ?? 'UTC';
  return useDatabase(context, after.config, async (database) => {
    const read = ledger && ((window: SpendWindow) => readSpending(database, window, time_zone));
    const changes = await diffConfigurations(before, after, read);
    if (audit === undefined) return { changes, notes: [] };
    const since = momentIn(audit, after.config);
    const of_requests = await diffRequests(before, after, {
      read: (request) => watched(context, factPages(database, { since, until: new Date() }, request)),
      period: `since ${formatMoment(since)}`,
    });
    return { changes: [...changes, ...of_requests.changes], notes: of_requests.notes };
  });
}

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
  requests: 'Past requests, by the audit log',
};

function withPipelinesTogether(changes: readonly Change[]): readonly Change[] {
  const alike = Map.groupBy(changes, ({ section, subject, change, details }) =>
    JSON.stringify([section, section === 'pipelines' || subject, change, details]),
  );
  return [...alike.values()].map((own) => ({ ...own[0]!, subject: own.map(({ subject }) => subject).join(', ') }));
}

/** Lines: a title per section, a paragraph per change. */
export function describeChanges(changes: readonly Change[]): string[] {
  const sections = Map.groupBy(withPipelinesTogether(changes), ({ section }) => section);
  const blocks = [...sections].map(([section, own]) => [
    TITLES[section],
    ...own.flatMap(({ subject, change, details = [] }) => [
      ...paragraph(`${subject}: ${change}`, '  ', '    '),
      ...details.flatMap((detail) => paragraph(detail, '    ', '      ')),
    ]),
  ]);
  return apart(blocks);
}

export const commands: readonly CommandRow[] = [
  {
    arguments: [
      ['<old>', 'current gateway.yaml'],
      ['<new>', 'gateway.yaml to compare'],
    ],
    options: [
      option('--ledger', "also show who already exceeds a changed limit, from the new configuration's database"),
      option(
        '--audit <since>',
        'also replay requests since this time from its audit log, per user: 7d, 12h or a date',
        dayOrMoment,
      ),
      option('--exit-code', 'exit with 1 if anything changes'),
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
