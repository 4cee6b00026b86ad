import { setTimeout as pause } from 'node:timers/promises';
import { InvalidArgumentError } from 'commander';
import { ERRORS } from '../../base/contract/errors.ts';
import type { AuditRecord } from '../../base/contract/services.ts';
import { formatUsd, usdToNano } from '../../base/kit/money.ts';
import { jsonText, printableLines, printableWord } from '../../base/kit/text/printable.ts';
import { didYouMean } from '../../base/kit/text/suggest.ts';
import type { Database } from '../../base/store/database.ts';
import type { AdminAction, AdminChange } from '../../domain/audit/admin-changes.ts';
import {
  fitter,
  listRequestRecords,
  newestRecordId,
  type RequestFilter,
  type RequestRecord,
  recordsAfter,
  type Senders,
  whoSent,
} from '../../domain/audit/request-records.ts';
import { describeChanges } from '../../pipeline/explain/trace.ts';
import type { AdminApi, InJson } from '../admin/operations.ts';
import { operation } from './admin.ts';
import {
  assertPeriod,
  type CommandContext,
  type CommandRow,
  collected,
  count,
  EXIT_OK,
  email,
  moment,
  notEmpty,
  option,
  textThat,
} from './commands.ts';
import { fields, inputOf } from './gateway-admin.ts';
import { type Columns, formatMinute, formatTable, formatTimestamp, paragraph, tableOf, titleInZone } from './output.ts';
import { withDatabase } from './with-database.ts';

const POLL_MS = 500;
const PAGE = 1000;

interface Meant {
  readonly since?: Date;
  readonly until?: Date;
  readonly user?: readonly string[];
  readonly model?: readonly string[];
  readonly token?: string;
  readonly status?: string;
  readonly error?: true | readonly string[];
  readonly shadow?: true | readonly string[];
  readonly rule?: readonly string[];
}

function filterOf({ user, error, rule: rules, ...others }: Meant): RequestFilter {
  const { since, until, model, token, status, shadow } = others;
  const filter: RequestFilter = {
    ...{ since, until, model, token, status, shadow, rules },
    // A single user can use the index.
    user: user?.length === 1 ? user[0] : user,
    ...(error === true ? { outcome: 'failed' } : { error }),
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

async function tailAudit(
  context: CommandContext,
  options: Meant & { config: string; lines: number; follow?: true; users?: true; json?: true },
): Promise<number> {
  const { terminal } = context;
  const { lines, follow = false, json = false } = options;
  assertPeriod(options);
  const filter = filterOf(options);
  const fits = fitter(filter);
  const print = (rows: readonly RequestRecord[]) => {
    for (const { id, at, record } of rows) {
      const { request_id = null } = record;
      if (json) terminal.data(`${jsonText({ id, at, request_id, ...record })}\n`);
      else terminal.data(printableLines(describeRecord({ at, record })));
    }
  };
  return withDatabase(context, options.config, async ({ database }) => {
    if (options.users) {
      printWho(context, await whoSent(database, filter, lines), { json, empty: nothingFound(options) });
      return EXIT_OK;
    }
    // Read before the list, so that --follow neither repeats nor skips a record.
    const newest = await newestRecordId(database);
    const { found, more } = await latest(database, filter, lines);
    print(found.filter(({ id }) => id <= newest).toReversed());
    if (found.length === 0 && lines > 0 && !follow && !json) terminal.info(nothingFound(options));
    if (more && !follow && !json) terminal.info(`There are more records; try -n ${lines * 5}.\n`);
    if (follow) await printWhatComes(database, newest, (rows) => print(rows.filter(({ record }) => fits(record))));
    return EXIT_OK;
  });
}

async function latest(database: Database, filter: RequestFilter, lines: number) {
  const found: RequestRecord[] = [];
  let after: string | null | undefined;
  while (after !== null && found.length < lines) {
    const limit = Math.min(PAGE, lines - found.length);
    const page = await listRequestRecords(database, filter, { limit, after, now: Date.now() });
    if (page === undefined) break;
    found.push(...page.records);
    after = page.next;
  }
  return { found, more: typeof after === 'string' && Object.keys(filter).length > 0 };
}

async function printWhatComes(
  database: Database,
  after: number,
  print: (rows: readonly RequestRecord[]) => void,
): Promise<void> {
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  let last = after;
  while (!stop.signal.aborted) {
    const rows = await recordsAfter(database, last, PAGE);
    print(rows);
    last = rows.at(-1)?.id ?? last;
    if (rows.length < PAGE) await pause(POLL_MS, undefined, { signal: stop.signal }).catch(() => {});
  }
}

function printWho(
  { terminal }: CommandContext,
  senders: readonly Senders[],
  { json, empty }: { readonly json: boolean; readonly empty: string },
): void {
  if (json) for (const sender of senders) terminal.data(`${jsonText(sender)}\n`);
  else if (senders.length === 0) terminal.info(empty);
  else {
    const columns: Columns<Senders> = [
      ['USER', ({ person }) => person ?? '(unknown caller)'],
      ['REQUESTS', ({ requests }) => String(requests), 'number'],
      ['REFUSED', ({ refused }) => String(refused), 'number'],
      [titleInZone('LAST'), ({ last }) => formatMinute(last)],
    ];
    terminal.data(printableLines(formatTable(...tableOf(columns, senders), terminal.table_columns)));
  }
}

function nothingFound(options: Meant): string {
  const { since, until } = options;
  if (Object.keys(filterOf(options)).length === 0) return 'The audit log is empty.\n';
  const from = since === undefined ? '' : ` since ${formatMinute(since)}`;
  const to = until === undefined ? '' : ` before ${formatMinute(until)}`;
  return `No matching record${from}${to}.\n`;
}

type Change = InJson<AdminChange> & { readonly words: string };

interface MeantChanges {
  readonly since?: Date;
  readonly until?: Date;
  readonly actor?: string;
  readonly action?: AdminAction;
  readonly subject?: string;
  readonly lines: number;
}

async function latestChanges(admin: AdminApi, options: MeantChanges): Promise<Change[]> {
  const { lines } = options;
  const found: Change[] = [];
  const filter = inputOf('listChanges', options);
  let before: number | undefined;
  while (found.length < lines) {
    const limit = Math.min(PAGE, lines - found.length);
    const page = await admin('listChanges', { ...filter, limit, before });
    found.push(...page.changes);
    if (page.next === null || page.changes.length === 0) break;
    before = page.next;
  }
  return found;
}

function describeChange({ at, action, subject, words }: Change): string[] {
  return [...paragraph(`${formatTimestamp(at)}  ${action}  ${subject}`, '', '    '), ...paragraph(words, '    ')];
}

const INDENT = '    ';

const word = (value: unknown): string | undefined =>
  value === null || value === undefined ? undefined : printableWord(String(value));

const words = (value: unknown): string[] =>
  Array.isArray(value) ? value.map((each) => printableWord(String(each))) : [];

export function describeRecord({ at, record }: Pick<RequestRecord, 'at' | 'record'>): string[] {
  const { user, model, upstream, protocol, path, status, route_rule } = record;
  const by = typeof route_rule === 'string' && route_rule !== 'default' ? ` by rule ${word(route_rule)}` : '';
  const where = typeof upstream === 'string' ? ` at ${word(upstream)}${by}` : '';
  const head = [
    formatTimestamp(at),
    word(status) ?? 'no response',
    word(user) ?? 'unknown caller',
    // "none" has no meaning: show the path of other APIs and of unserved paths.
    `${word(model ?? (protocol === 'none' ? path : protocol)) ?? 'no model'}${where}`,
  ];
  return [
    ...paragraph(head.join('  '), '', INDENT),
    ...[endOf(record), ...remarksOf(record), measuresOf(record)]
      .filter((text) => text !== undefined)
      .flatMap((text) => paragraph(text, INDENT, `${INDENT}  `)),
  ];
}

const REFUSED_BY = /^(access rule|policy|token group) (.+)$/s;

function endOf(record: AuditRecord): string | undefined {
  const { error, aborted, status, upstream } = record;
  if (typeof error === 'string') return `${refusalOf(record)} (${word(error)})`;
  if (aborted === true) return 'the client disconnected';
  return Number(status ?? 0) >= 400 && typeof upstream === 'string' ? `error of ${word(upstream)}` : undefined;
}

function limitOf({ limits, spend_rule }: AuditRecord): string {
  const found = Array.isArray(limits) ? limits.find((limit) => limit?.rule === spend_rule) : undefined;
  const changes = found && describeChanges(found, { is_admin: true })?.replace(/\.$/, '');
  return `refused by limit ${word(spend_rule)}${changes ? `: ${changes}` : ''}`;
}

function refusalOf(record: AuditRecord): string {
  const { refused_by, spend_rule, stage, status } = record;
  if (typeof refused_by === 'string') {
    const [, kind, name] = REFUSED_BY.exec(refused_by) ?? [];
    return `refused by ${kind === undefined ? word(refused_by) : `${kind} ${word(name)}`}`;
  }
  if (typeof spend_rule === 'string') return limitOf(record);
  const verb = Number(status ?? 500) < 500 ? 'refused by' : 'failed in';
  return typeof stage === 'string' ? `${verb} stage ${word(stage)}` : verb.split(' ')[0]!;
}

function remarksOf({ shadow, losses, sends }: AuditRecord): string[] {
  const [stored, lost] = [words(shadow), words(losses)];
  return [
    ...(stored.length === 0 ? [] : [`in shadow mode: ${stored.join(', ')}`]),
    ...(lost.length === 0 ? [] : [`translation: ${lost.join(', ')}`]),
    ...(typeof sends === 'number' && sends > 1 ? [`sent ${sends} times`] : []),
  ];
}

function measuresOf({ cost_usd, duration_ms, request_id }: AuditRecord): string {
  return [
    typeof cost_usd === 'number' ? `${formatUsd(usdToNano(cost_usd))} USD` : undefined,
    typeof duration_ms === 'number' ? `${duration_ms} ms` : undefined,
    request_id === undefined ? undefined : `id ${word(request_id)}`,
  ]
    .filter((part) => part !== undefined)
    .join(', ');
}

function errorCode(text: string, before: unknown): readonly string[] {
  const codes = Object.keys(ERRORS);
  if (!codes.includes(text)) {
    throw new InvalidArgumentError(
      didYouMean(text, codes, 'see "appscli explain error"; --error without a code finds all errors.'),
    );
  }
  return [...(Array.isArray(before) ? before : []), text];
}

const status = textThat(
  (text) => /^[1-5](?:\d\d|xx)$/.test(text),
  'Expected a status such as 403, or a class such as 4xx.',
);

const emails = (text: string, before: readonly string[] = []) => [...before, email(text).toLowerCase()];
const names = (text: string, before: unknown) => collected(text, Array.isArray(before) ? before : []);

const SINCE = option('--since <when>', 'only from this time: 7d, 12h or a date', moment);
const UNTIL = option('--until <when>', 'only before this time: 1d, 12h or a date', moment);

export const commands: readonly CommandRow[] = [
  {
    name: 'tail',
    about: 'print the latest audit records, oldest first; filters combine with AND',
    options: [
      SINCE,
      UNTIL,
      option('--user <email>', 'only requests of this user; repeatable (OR)', emails),
      option('--model <id>', 'only requests for this model; repeatable', collected),
      option('--token <id>', 'only requests with this access token or session', notEmpty),
      option('--status <status>', 'only this status, such as 403, or a class such as 4xx', status),
      option('--error [code]', 'only rejected or failed requests, or only this error code; repeatable', errorCode),
      option('--shadow [name]', 'only requests that a shadow rule matched, or this shadow rule', names),
      option(
        '--rule <name>',
        'only requests that this rule, limit or stage rejected or routed, or would have in shadow mode; repeatable',
        collected,
      ),
      option('--users', 'print one row per user: requests, rejected requests, last request'),
      option('-n, --lines <count>', 'number of records', count).default(20),
      option('-f, --follow', 'print new records as they arrive').conflicts(['until', 'users']),
    ],
    place: 'configuration',
    json: 'print each record as one line of JSON',
    examples: [
      'appscli audit tail -n 5',
      'appscli audit tail --error --since 1d                  rejected or failed',
      'appscli audit tail --rule no-preview --since 7d        matches of a rule',
      'appscli audit tail --rule no-preview --since 7d --users',
      'appscli audit tail --user ann@example.com --follow',
      'appscli audit tail --follow --json | jq .status',
    ],
    run: tailAudit,
  },
  operation<'listChanges', MeantChanges, readonly Change[]>('listChanges', {
    name: 'changes',
    about: 'print changes of access tokens, sessions, limits and the ledger, oldest first',
    options: [
      SINCE,
      UNTIL,
      ...fields('listChanges', 'actor', 'action', 'subject'),
      option('-n, --lines <count>', 'number of latest changes', count).default(100),
    ],
    json: 'print each change as one line of JSON',
    examples: [
      'appscli audit changes --since 7d',
      'appscli audit changes --subject ana@example.com',
      'appscli audit changes --json | jq .actor',
    ],
    call: async (admin, options) => (await latestChanges(admin, options)).toReversed(),
    show({ terminal }, found, { json }) {
      if (json) for (const change of found) terminal.data(`${jsonText(change)}\n`);
      else if (found.length === 0) terminal.info('No matching changes.\n');
      else terminal.data(printableLines(found.flatMap(describeChange)));
      return EXIT_OK;
    },
  }),
];
