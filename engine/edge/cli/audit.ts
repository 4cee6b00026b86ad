import { setTimeout as pause } from 'node:timers/promises';
import { InvalidArgumentError } from 'commander';
import { ERRORS } from '../../base/contract/errors.ts';
import type { AuditRecord } from '../../base/contract/services.ts';
import { formatUsd, usdToNano } from '../../base/kit/money.ts';
import { jsonText, printableLine, printableLines, printableWord } from '../../base/kit/text/printable.ts';
import { didYouMean } from '../../base/kit/text/suggest.ts';
import type { Database } from '../../base/store/database.ts';
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
import { traceOf } from '../../pipeline/explain/trace.ts';
import { type AnswerOf, allEntries, operation } from './admin.ts';
import {
  assertPeriod,
  type CommandContext,
  type CommandRow,
  collected,
  count,
  dayOrMoment,
  EXIT_OK,
  email,
  option,
  textThat,
} from './commands.ts';
import { fields } from './gateway-admin.ts';
import { type Columns, formatMinute, formatTimestamp, paragraph, showList, titleInZone } from './output.ts';
import { momentIn, readConfig, useDatabase } from './with-database.ts';

const POLL_MS = 500;
const PAGE = 1000;

interface Meant {
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
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
  parsed: Omit<Meant, 'since' | 'until'> & {
    readonly since?: Date | string;
    readonly until?: Date | string;
    readonly config: string;
    readonly lines: number;
    readonly follow?: true;
    readonly users?: true;
    readonly json?: true;
  },
): Promise<number> {
  const { terminal } = context;
  const { lines, follow = false, json = false } = parsed;
  const config = await readConfig(context, parsed.config);
  const options = { ...parsed, since: momentIn(parsed.since, config), until: momentIn(parsed.until, config) };
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
  return useDatabase(context, config, async (database) => {
    if (options.users) {
      const senders = await whoSent(database, filter, lines);
      if (!json) return showList(context, senders, undefined, { none: nothingFound(options), columns: SENDERS });
      for (const sender of senders) terminal.data(`${jsonText(sender)}\n`);
      return EXIT_OK;
    }
    // Read before the list, so that --follow neither repeats nor skips a record.
    const newest = await newestRecordId(database);
    const { found, more } = await latest(database, filter, lines);
    print(found.filter(({ id }) => id <= newest).toReversed());
    if (found.length === 0 && lines > 0 && !follow && !json) terminal.info(`${nothingFound(options)}\n`);
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

const SENDERS: Columns<Senders> = [
  ['USER', ({ person }) => person ?? '(unknown caller)'],
  ['REQUESTS', ({ requests }) => String(requests), 'number'],
  ['REJECTED', ({ refused }) => String(refused), 'number'],
  [titleInZone('LAST'), ({ last }) => formatMinute(last)],
];

function nothingFound(options: Meant): string {
  const { since, until } = options;
  if (Object.keys(filterOf(options)).length === 0) return 'The audit log is empty.';
  const from = since === undefined ? '' : ` since ${formatMinute(since)}`;
  const to = until === undefined ? '' : ` before ${formatMinute(until)}`;
  return `No matching record${from}${to}.`;
}

type Change = AnswerOf<'listChanges'>['changes'][number];

function describeChange({ at, action, subject, words }: Change): string[] {
  return [...paragraph(`${formatTimestamp(at)}  ${action}  ${subject}`, '', '    '), ...paragraph(words, '    ')];
}

const INDENT = '    ';

const word = (value: unknown): string | undefined =>
  value === null || value === undefined ? undefined : printableWord(String(value));

const words = (value: unknown): string =>
  Array.isArray(value) ? value.map((each) => printableWord(String(each))).join(', ') : '';

export function describeRecord({ at, record }: Pick<RequestRecord, 'at' | 'record'>): string[] {
  const { user, model, upstream, protocol, path, status, error, aborted, route_rule, losses, sends } = record;
  const by = typeof route_rule === 'string' && route_rule !== 'default' ? ` by rule ${word(route_rule)}` : '';
  const where = typeof upstream === 'string' ? ` at ${word(upstream)}${by}` : '';
  const head = [
    formatTimestamp(at),
    [word(status) ?? 'no response', ...(typeof error === 'string' ? [word(error)] : [])].join(' '),
    word(user) ?? 'unknown caller',
    // "none" has no meaning: show the path of other APIs and of unserved paths.
    `${word(model ?? (protocol === 'none' ? path : protocol)) ?? 'no model'}${where}`,
  ];
  const { why, shadow } = traceOf(record, { attempts: [] });
  const is_fine = typeof error !== 'string' && aborted !== true && Number(status ?? 0) < 400;
  const details = [
    ...(is_fine ? [] : [printableLine(why)]),
    ...(shadow.length === 0 ? [] : [`in shadow mode: ${words(shadow)}`]),
    ...(words(losses) === '' ? [] : [`translation: ${words(losses)}`]),
    ...(typeof sends === 'number' && sends > 1 ? [`sent ${sends} times`] : []),
    measuresOf(record),
  ];
  return [
    ...paragraph(head.join('  '), '', INDENT),
    ...details.flatMap((text) => paragraph(text, INDENT, `${INDENT}  `)),
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

const PERIOD = [
  option('--since <when>', 'only from this time: 7d, 12h or a date', dayOrMoment),
  option('--until <when>', 'only before this time: 1d, 12h or a date', dayOrMoment),
];

export const commands: readonly CommandRow[] = [
  {
    name: 'tail',
    about: 'print the latest audit records, oldest first; filters combine with AND',
    options: [
      ...PERIOD,
      option('--user <email>', 'only requests of this user; repeatable (OR)', emails),
      option('--model <id>', 'only requests for this model; repeatable', collected),
      option('--token <id>', 'only requests with this access token or session'),
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
  operation<'listChanges', { readonly lines: number }, readonly Change[]>('listChanges', {
    name: 'changes',
    about: 'print administrative changes (tokens, sessions, users, limits, upstreams, ledger), oldest first',
    options: [
      ...PERIOD,
      ...fields('listChanges', 'actor', 'action', 'subject'),
      option('-n, --lines <count>', 'number of latest changes', count).default(100),
    ],
    json: 'print each change as one line of JSON',
    examples: [
      'appscli audit changes --since 7d',
      'appscli audit changes --subject ana@example.com',
      'appscli audit changes --json | jq .actor',
    ],
    async call(admin, options) {
      return (await allEntries<Change>(admin, 'listChanges', 'changes', options, options.lines)).toReversed();
    },
    show({ terminal }, found, { json }) {
      if (json) for (const change of found) terminal.data(`${jsonText(change)}\n`);
      else if (found.length === 0) terminal.info('No matching changes.\n');
      else terminal.data(printableLines(found.flatMap(describeChange)));
      return EXIT_OK;
    },
  }),
];
