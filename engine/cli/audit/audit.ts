import { setTimeout as pause } from 'node:timers/promises';
import { jsonText, printableWord } from '../../kit/text/printable.ts';
import { type AuditRow, auditTail } from '../../money/reports/usage.ts';
import type { Database } from '../../store/database.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { formatTimestamp } from '../times.ts';
import { withDatabase } from '../with-database.ts';

const POLL_MS = 500;
const PAGE = 1000;

/** `appscli audit tail`: the latest records, oldest first, and with `--follow` those that come after, until Ctrl-C. */
export async function tailAudit(
  context: CommandContext,
  given: { readonly config: string; readonly lines: number; readonly follow?: true; readonly json?: true },
): Promise<number> {
  const { terminal } = context;
  const { lines, follow = false, json = false } = given;
  const print = (rows: readonly AuditRow[]) => {
    for (const row of rows) terminal.data(`${json ? jsonLine(row) : readableLine(row)}\n`);
  };
  return withDatabase(context, given.config, async ({ database }) => {
    // At least one, to know where to go on from.
    const latest = await auditTail(database, { limit: Math.max(1, lines) });
    print(lines === 0 ? [] : latest);
    if (latest.length === 0 && !follow && !json) terminal.info('The audit log is empty.\n');
    if (follow) await printWhatComes(database, latest.at(-1)?.id ?? 0, print);
    return EXIT_OK;
  });
}

/** Prints what comes after a record until SIGINT or SIGTERM. */
async function printWhatComes(
  database: Database,
  after: number,
  print: (rows: readonly AuditRow[]) => void,
): Promise<void> {
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  let last = after;
  while (!stop.signal.aborted) {
    const rows = await auditTail(database, { after: last, limit: PAGE });
    print(rows);
    last = rows.at(-1)?.id ?? last;
    if (rows.length < PAGE) await pause(POLL_MS, undefined, { signal: stop.signal }).catch(() => {});
  }
}

function jsonLine({ id, at, request_id, record }: AuditRow): string {
  return jsonText({ id, at, request_id, ...record });
}

const word = (value: unknown): string | undefined =>
  value === null || value === undefined ? undefined : printableWord(String(value));

/** One record as one line for a person: when, who, what, with which result. Each part is one word or in quotes, whoever wrote it. */
function readableLine({ at, record }: AuditRow): string {
  const { user, model, upstream, protocol, status, error, aborted, cost_usd, duration_ms, request_id, losses } = record;
  const where = word(upstream);
  const lost = Array.isArray(losses) && losses.length > 0 ? losses.map(word).join(', ') : undefined;
  return [
    formatTimestamp(at),
    word(status) ?? 'no answer',
    word(error),
    aborted === true ? 'aborted' : undefined,
    typeof cost_usd === 'number' ? `$${cost_usd.toFixed(6)}` : undefined,
    word(user) ?? 'unknown caller',
    word(model ?? protocol),
    where && `at ${where}`,
    lost && `translation: ${lost}`,
    typeof duration_ms === 'number' ? `${duration_ms} ms` : undefined,
    word(request_id),
  ]
    .filter((part) => part !== undefined)
    .join('  ');
}
