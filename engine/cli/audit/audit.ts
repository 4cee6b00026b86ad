import { setTimeout as pause } from 'node:timers/promises';
import { fitter, type RequestFilter } from '../../audit/request-filter.ts';
import {
  listRequestRecords,
  newestRecordId,
  type RequestRecord,
  recordsAfter,
  type Senders,
  whoSent,
} from '../../audit/request-records.ts';
import { jsonText, printableLines } from '../../kit/text/printable.ts';
import type { Database } from '../../store/database.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { demandPeriod } from '../options.ts';
import { formatTable, numbers } from '../table.ts';
import { formatMinute, titleInZone } from '../times.ts';
import { withDatabase } from '../with-database.ts';
import { nothingFound } from './nothing-found.ts';
import { describeRecord } from './record-text.ts';

const POLL_MS = 500;
const PAGE = 1000;

/** Which records are meant, by the names of options. */
export interface Meant {
  readonly since?: Date;
  readonly until?: Date;
  readonly user?: readonly string[];
  readonly model?: readonly string[];
  readonly token?: string;
  readonly status?: string;
  /** Codes; `true`: whatever ended with an error. */
  readonly error?: true | readonly string[];
  /** Names; `true`: whatever would have been refused or changed. */
  readonly shadow?: true | readonly string[];
  readonly rule?: readonly string[];
}

/** What `appscli audit tail` may be given. */
export interface TailOptions extends Meant {
  readonly config: string;
  readonly lines: number;
  readonly follow?: true;
  readonly who?: true;
  readonly json?: true;
}

function filterOf({ since, until, user, model, token, status, error, shadow, rule: rules }: Meant): RequestFilter {
  return {
    since,
    until,
    // One of them has an index.
    user: user?.length === 1 ? user[0] : user,
    model,
    token,
    status,
    ...(error === true ? { outcome: 'failed' } : { error }),
    shadow,
    rules,
  };
}

/** `appscli audit tail`: the latest records that fit, oldest first, and with `--follow` those that come after, until Ctrl-C. */
export async function tailAudit(context: CommandContext, given: TailOptions): Promise<number> {
  const { terminal } = context;
  const { lines, follow = false, json = false } = given;
  demandPeriod(given);
  const filter = filterOf(given);
  const fits = fitter(filter);
  const print = (rows: readonly RequestRecord[]) => {
    for (const row of rows)
      terminal.data(json ? `${jsonLine(row)}\n` : printableLines(describeRecord(row, terminal.columns)));
  };
  return withDatabase(context, given.config, async ({ config, database }) => {
    if (given.who) {
      printWho(context, await whoSent(database, filter, lines), { json, empty: nothingFound(given, config) });
      return EXIT_OK;
    }
    // Known before the list is read, so that no record is shown twice or not at all.
    const newest = await newestRecordId(database);
    const { found, more } = await latest(database, filter, lines, terminal);
    print(found.filter(({ id }) => id <= newest).toReversed());
    if (found.length === 0 && lines > 0 && !follow && !json) terminal.info(nothingFound(given, config));
    if (more && !follow && !json) terminal.info(`There are more; try -n ${lines * 5}.\n`);
    if (follow) await printWhatComes(database, newest, (rows) => print(rows.filter(({ record }) => fits(record))));
    return EXIT_OK;
  });
}

/** The newest that fit, and whether any filter left more of them. */
async function latest(
  database: Database,
  filter: RequestFilter,
  lines: number,
  terminal: CommandContext['terminal'],
): Promise<{ readonly found: RequestRecord[]; readonly more: boolean }> {
  const found: RequestRecord[] = [];
  const is_filtered = Object.values(filter).some((value) => value !== undefined);
  let told = false;
  for (let after: string | null | undefined; after !== null && found.length < lines; ) {
    const limit = Math.min(PAGE, lines - found.length);
    const page = await listRequestRecords(database, filter, { limit, after, now: Date.now() });
    if (page === undefined) break;
    found.push(...page.records);
    after = page.next;
    if (after !== null && found.length === lines) return { found, more: is_filtered };
    if (page.searched_to !== null && terminal.interactive) {
      terminal.rewrite(`Looking back; at ${formatMinute(page.searched_to)}`);
      told = true;
    }
  }
  if (told) terminal.rewrite('');
  return { found, more: false };
}

/** Prints what comes after a record until SIGINT or SIGTERM. */
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

function jsonLine({ id, at, record }: RequestRecord): string {
  const { request_id = null } = record;
  return jsonText({ id, at, request_id, ...record });
}

/** Who sent the requests, instead of the requests. */
function printWho(
  { terminal }: CommandContext,
  senders: readonly Senders[],
  { json, empty }: { readonly json: boolean; readonly empty: string },
): void {
  if (json) for (const sender of senders) terminal.data(`${jsonText(sender)}\n`);
  else if (senders.length === 0) terminal.info(empty);
  else {
    const rows = senders.map(({ person, requests, refused, last }) => [
      person ?? '(unknown caller)',
      String(requests),
      String(refused),
      formatMinute(last),
    ]);
    const titles = ['WHO', ...numbers('REQUESTS', 'REFUSED'), titleInZone('LAST')];
    terminal.data(printableLines(formatTable(titles, rows, terminal.table_columns)));
  }
}
