import type { GatewayConfig } from '../../base/contract/config.ts';
import { ERRORS, type ErrorCode, StageError } from '../../base/contract/errors.ts';
import type { UpstreamStates } from '../../base/contract/forwarding.ts';
import { OperationError, type OperationProblem } from '../../base/contract/operation-error.ts';
import type { Clock, ModelCatalog, Principal } from '../../base/contract/services.ts';
import { isTimeZone } from '../../base/kit/net/addresses.ts';
import { type CsvCell, formatCsv } from '../../base/kit/text/csv.ts';
import { jsonText } from '../../base/kit/text/printable.ts';
import { parseDate } from '../../base/kit/times.ts';
import type { Loaded, Policy } from '../../base/source/spec.ts';
import type { Database } from '../../base/store/database.ts';
import type { Actor, Changing } from '../../domain/audit/admin-changes.ts';
import type { LiveRecords } from '../../domain/audit/live-records.ts';
import type { Sessions } from '../../domain/identity/sessions/sessions.ts';
import type { ServiceScope } from '../../domain/identity/tokens/service-tokens.ts';
import { pageOf } from './description.ts';

/** Caller of an admin operation: a signed-in person, a service token or a local command. */
export interface Caller {
  readonly principal: Principal;
  readonly email: string;
  readonly is_admin: boolean;
  readonly actor: Actor;
  /** Scopes of a service token; absent for people and commands. */
  readonly scopes?: readonly ServiceScope[];
}

/** A caller that is not a person: it owns nothing and has the admin role. */
export function programCaller(id: string, name: string, actor: Actor, scopes?: readonly ServiceScope[]): Caller {
  const principal: Principal = Object.freeze({
    id,
    email: `${actor.kind}:${name}`,
    kind: 'session',
    groups: [],
    roles: ['admin'],
    team: undefined,
    project: undefined,
    token: { id, name, group: undefined },
  });
  return { principal, email: principal.email, is_admin: true, actor, ...(scopes !== undefined && { scopes }) };
}

/** Owner filter of a list: only administrators see entries of other people. Raises OperationError. */
export function ownerToList({ is_admin, email }: Caller, user: string | undefined): string | undefined {
  if (is_admin) return user;
  if (user === undefined || user === email) return email;
  throw new OperationError(`admin role required to see entries of ${user}; omit "user" to see your own`, 'forbidden');
}

/** Dependencies of admin operations: one configuration and its services. */
export interface AdminOptions {
  readonly config: GatewayConfig;
  /** Managed policies; absent if only gateway.yaml was read. */
  readonly policies?: readonly Policy[];
  /** Absent without sign-in. */
  readonly sessions: Pick<Sessions, 'list'> | undefined;
  readonly database: Pick<Database, 'query' | 'knex'>;
  readonly clock: Clock;
  readonly models: ModelCatalog;
  /** Source of rules, and the base directory of their file names; absent outside a running gateway. */
  readonly explained?: { readonly loaded: Loaded; readonly directory: string };
  /** New audit records; absent outside a running gateway. */
  readonly live?: Pick<LiveRecords, 'listen'>;
  /** States of upstreams in this process; absent if it serves no requests. */
  readonly upstreams?: Pick<UpstreamStates, 'list'>;
}

/** Caller of an operation, and the author of its changes. */
export interface OperationContext {
  readonly caller: Caller;
  readonly by: Changing;
}

/** Page of a list, after a cursor. */
export interface PageQuery {
  readonly limit: number;
  readonly after?: string;
}

/** A file response in chunks; the description has its media type. */
export interface Download {
  /** Letters, digits, dots and hyphens. */
  readonly file_name: string;
  readonly chunks: Iterable<string> | AsyncIterable<string>;
}

/** One event of a feed. */
export interface FeedEvent {
  /** Increasing; a disconnected reader resumes after it. */
  readonly id: number;
  readonly event: string;
  readonly data: object;
}

/** An event stream response (`text/event-stream`). */
export interface LiveFeed {
  /** Opens the feed; resolves to the function that stops it. Raises OperationError for too many open feeds. */
  open(reader: { send(event: FeedEvent): void; end(): void }): Promise<() => void>;
}

/** A list for export: JSON lines with exact values, or CSV for spreadsheets. */
export interface ExportedList<Entry extends object> {
  /** File name without extension. */
  readonly name: string;
  readonly titles: readonly string[];
  /** Values of an entry by column; absent: the entry itself. */
  row?(entry: Entry): object;
  pages(): AsyncIterable<readonly Entry[]>;
  count(most: number): Promise<number>;
}

/** Entries per page of an export. */
export const EXPORT_PAGE = 500;
/** Export limit; larger lists are exported in several periods. */
const MAX_EXPORTED = 500_000;

/** Exports a list as JSON lines or CSV. Raises OperationError for too many entries, and the errors of `count`. */
export async function exported<Entry extends object>(
  list: ExportedList<Entry>,
  form: 'jsonl' | 'csv',
): Promise<Download> {
  if ((await list.count(MAX_EXPORTED + 1)) > MAX_EXPORTED) {
    throw new OperationError(
      `the export has more than ${MAX_EXPORTED} entries: send "since" and "until" to export one period after another`,
    );
  }
  return { file_name: `${list.name}.${form}`, chunks: form === 'csv' ? csvOf(list) : linesOf(list) };
}

async function* csvOf<Entry extends object>({ titles, row = (entry) => entry, pages }: ExportedList<Entry>) {
  yield formatCsv(titles, []);
  for await (const page of pages()) {
    const rows = page.map((entry) => row(entry) as Readonly<Record<string, unknown>>);
    const titled = formatCsv(
      [],
      rows.map((each) => titles.map((title) => cellOf(each[title]))),
    );
    yield titled.slice(titled.indexOf('\n') + 1);
  }
}

function cellOf(value: unknown): CsvCell {
  if (typeof value === 'number') return { number: String(value) };
  if (value instanceof Date) return { text: value.toISOString() };
  if (Array.isArray(value)) return { text: value.join(', ') };
  return { text: typeof value === 'object' && value !== null ? jsonText(value) : String(value ?? '') };
}

async function* linesOf<Entry extends object>(list: ExportedList<Entry>) {
  for await (const page of list.pages()) yield page.map((entry) => `${jsonText(entry)}\n`).join('');
}

/** Page of a list, newest first, before an id. */
export interface PageBefore {
  readonly before?: number | undefined;
  readonly limit: number;
}

/** A list with keyset pagination by descending id: one page, or an export of all entries. */
export function listById<Query, Entry extends { readonly id: number }>(
  list: Pick<ExportedList<Entry>, 'name' | 'titles' | 'row'> & {
    read(query: Query, page: PageBefore): Promise<readonly Entry[]>;
    count(query: Query, most: number): Promise<number>;
  },
) {
  const all = (query: Query): ExportedList<Entry> => ({
    ...list,
    pages: () => pagesById((page) => list.read(query, page)),
    count: (most) => list.count(query, most),
  });
  return {
    page: async (query: Query & PageBefore) =>
      pageOf(await list.read(query, { before: query.before, limit: query.limit + 1 }), query.limit),
    lines: (query: Query) => exported(all(query), 'jsonl'),
    csv: (query: Query) => exported(all(query), 'csv'),
  };
}

async function* pagesById<Entry extends { readonly id: number }>(
  read: (page: PageBefore) => Promise<readonly Entry[]>,
): AsyncIterable<readonly Entry[]> {
  let before: number | undefined;
  for (;;) {
    const page = await read({ before, limit: EXPORT_PAGE });
    if (page.length > 0) yield page;
    if (page.length < EXPORT_PAGE) return;
    before = page.at(-1)!.id;
  }
}

const A_ZONE = 'the name of a time zone, such as UTC or Europe/Berlin';

/** Time zone of dates: the parameter, else `spend_limits.time_zone`, else UTC. Raises OperationError. */
export function timeZoneParameter(
  time_zone: string | undefined,
  { spend_limits }: Pick<GatewayConfig, 'spend_limits'>,
): string {
  const zone = time_zone ?? spend_limits?.time_zone ?? 'UTC';
  if (!isTimeZone(zone)) throw new OperationError(`the parameter "time_zone" is wrong: expected ${A_ZONE}`);
  return zone;
}

/** Parses a date or time parameter; a date stays a text, as it depends on a time zone. Raises OperationError. */
export function dateParameter(name: string, text: string | undefined): Date | string | undefined {
  if (text === undefined) return undefined;
  const moment = parseDate(text);
  if (moment === undefined || moment.getUTCFullYear() < 1970) {
    const expected = 'a date such as 2027-01-31, or a time such as 2027-01-31T18:00:00Z';
    throw new OperationError(`the parameter "${name}" is wrong: expected ${expected}`);
  }
  return text.includes('T') ? moment : text;
}

const CODES = {
  invalid: 'invalid_request',
  missing: 'not_found',
  conflict: 'conflict',
  forbidden: 'forbidden',
} as const satisfies Readonly<Record<OperationProblem, ErrorCode>>;

/** Message, HTTP status and code of a refused operation; `undefined` for other errors. */
export function refusalOf(error: unknown) {
  if (!(error instanceof OperationError)) return undefined;
  const code = CODES[error.problem];
  return { message: error.message, code, status: ERRORS[code].status };
}

/** Converts a refusal to an HTTP error with a whole sentence; returns other errors unchanged. */
export function asStageError(error: unknown): unknown {
  const refusal = refusalOf(error);
  if (refusal === undefined) return error;
  const sentence = refusal.message[0]!.toUpperCase() + refusal.message.slice(1);
  return new StageError(refusal.code, /[.?]$/.test(sentence) ? sentence : `${sentence}.`);
}
