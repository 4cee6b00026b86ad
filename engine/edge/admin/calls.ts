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

/** Who asks for an admin operation: a person who signed in, a service token, or whoever runs a command. */
export interface Caller {
  readonly principal: Principal;
  readonly email: string;
  readonly is_admin: boolean;
  readonly actor: Actor;
  /** What a service token may do; absent for people and commands. */
  readonly scopes?: readonly ServiceScope[];
}

/** A caller that acts for no person: nothing is its own, and it has the rights of an administrator. */
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

/** Whose entries a list shows: everybody's only to administrators. Raises OperationError. */
export function ownerToList({ is_admin, email }: Caller, asked: string | undefined): string | undefined {
  if (is_admin) return asked;
  if (asked === undefined || asked === email) return email;
  throw new OperationError(`only administrators see what is ${asked}'s; leave "user" out to see your own`, 'forbidden');
}

/** What admin operations work with: one configuration, and the services behind it. */
export interface AdminOptions {
  readonly config: GatewayConfig;
  /** Managed policies; absent where only gateway.yaml was read. */
  readonly policies?: readonly Policy[];
  /** Absent where nobody can sign in. */
  readonly sessions: Pick<Sessions, 'list'> | undefined;
  readonly database: Pick<Database, 'query' | 'knex'>;
  readonly clock: Clock;
  readonly models: ModelCatalog;
  /** What rules are told by, and below which directory their files are named; absent where no gateway runs. */
  readonly explained?: { readonly loaded: Loaded; readonly directory: string };
  /** New audit records; absent where no gateway runs. */
  readonly live?: Pick<LiveRecords, 'listen'>;
  /** What this process knows of upstreams; absent where it serves no requests. */
  readonly upstreams?: Pick<UpstreamStates, 'list'>;
}

/** Who asks for an operation, and who changes what it changes. */
export interface Asked {
  readonly caller: Caller;
  readonly by: Changing;
}

/** Which part of a list is asked for. */
export interface PageAsked {
  readonly limit: number;
  readonly after?: string;
}

/** A file that an operation answers with, in pieces; the description says its media type. */
export interface Download {
  /** Letters, digits, dots and hyphens. */
  readonly file_name: string;
  readonly chunks: Iterable<string> | AsyncIterable<string>;
}

/** One event of a feed. */
export interface FeedEvent {
  /** Grows; a reader that was cut off goes on after it. */
  readonly id: number;
  readonly event: string;
  readonly data: object;
}

/** What an operation answers with that goes on (`text/event-stream`). */
export interface LiveFeed {
  /** Begins; resolves to what stops it. Raises OperationError where there are too many. */
  open(reader: { send(event: FeedEvent): void; end(): void }): Promise<() => void>;
}

/** A list that can be had as a file: each entry as a line of JSON, every value exact, or as CSV for spreadsheets. */
export interface ExportedList<Entry extends object> {
  /** What the file is called, without its ending. */
  readonly name: string;
  /** Of the columns of CSV. */
  readonly titles: readonly string[];
  /** An entry by title; absent: as it is. */
  row?(entry: Entry): object;
  pages(): AsyncIterable<readonly Entry[]>;
  /** How many entries have to be read for it, counted up to `most`. */
  count(most: number): Promise<number>;
}

/** How many entries a page of an export has. */
export const EXPORT_PAGE = 500;
/** More is no list to look through: whoever wants all takes it month by month. */
const MAX_EXPORTED = 500_000;

/** All entries of a list as lines of JSON. Raises OperationError where they are too many, what `count` raises. */
export async function exportLines<Entry extends object>(list: ExportedList<Entry>): Promise<Download> {
  await demandRoom(list);
  return { file_name: `${list.name}.jsonl`, chunks: linesOf(list) };
}

/** All entries of a list as CSV. Raises OperationError where they are too many, what `count` raises. */
export async function exportCsv<Entry extends object>(list: ExportedList<Entry>): Promise<Download> {
  await demandRoom(list);
  return { file_name: `${list.name}.csv`, chunks: csvOf(list) };
}

async function demandRoom({ count }: Pick<ExportedList<never>, 'count'>): Promise<void> {
  if ((await count(MAX_EXPORTED + 1)) <= MAX_EXPORTED) return;
  throw new OperationError(
    `these are more than ${MAX_EXPORTED} entries to read: send "since" and "until", and take one period after the other`,
  );
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

/** Which part of a list is asked for that goes on before the id of its last entry. */
export interface PageBefore {
  readonly before?: number | undefined;
  readonly limit: number;
}

/** A list that goes on before the id of its last entry: a page of it, and all that is asked for as a file. */
export function listById<Asked, Entry extends { readonly id: number }>(
  list: Pick<ExportedList<Entry>, 'name' | 'titles' | 'row'> & {
    read(asked: Asked, page: PageBefore): Promise<readonly Entry[]>;
    count(asked: Asked, most: number): Promise<number>;
  },
) {
  const exported = (asked: Asked): ExportedList<Entry> => ({
    ...list,
    pages: () => pagesById((page) => list.read(asked, page)),
    count: (most) => list.count(asked, most),
  });
  return {
    page: async (asked: Asked & PageBefore) =>
      pageOf(await list.read(asked, { before: asked.before, limit: asked.limit + 1 }), asked.limit),
    lines: (asked: Asked) => exportLines(exported(asked)),
    csv: (asked: Asked) => exportCsv(exported(asked)),
  };
}

/** The pages of a list that goes on before the id of its last entry. */
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

/** The time zone in which dates are meant: that of the parameter, else that of spend limits, else UTC. Raises OperationError. */
export function zoneAsked(
  time_zone: string | undefined,
  { spend_limits }: Pick<GatewayConfig, 'spend_limits'>,
): string {
  const zone = time_zone ?? spend_limits?.time_zone ?? 'UTC';
  if (!isTimeZone(zone)) throw new OperationError(`the parameter "time_zone" is wrong: expected ${A_ZONE}`);
  return zone;
}

/** A date or moment of a parameter; a date stays a text, for it depends on a time zone. Raises OperationError. */
export function endAsked(name: string, text: string | undefined): Date | string | undefined {
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

/** The sentence of an operation that was refused, and the HTTP status and code for it; `undefined` for any other error. */
export function refusalOf(error: unknown) {
  if (!(error instanceof OperationError)) return undefined;
  const code = CODES[error.problem];
  return { message: error.message, code, status: ERRORS[code].status };
}

/** A refusal as an answer over HTTP: a whole sentence. Any other error as it is. */
export function asStageError(error: unknown): unknown {
  const refusal = refusalOf(error);
  if (refusal === undefined) return error;
  const sentence = refusal.message[0]!.toUpperCase() + refusal.message.slice(1);
  return new StageError(refusal.code, /[.?]$/.test(sentence) ? sentence : `${sentence}.`);
}
