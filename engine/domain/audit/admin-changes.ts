import type { Clock } from '../../base/contract/services.ts';
import { storable } from '../../base/kit/storable.ts';
import type { Database } from '../../base/store/database.ts';

type Queryable = Pick<Database, 'query'>;

/** The author of a change: a person (e-mail), a command (user@host), a part of the gateway, or a service token. */
export interface Actor {
  readonly kind: 'person' | 'command' | 'gateway' | 'service';
  readonly name: string;
}

/** Context of a change: database, clock and author. */
export interface Changing {
  readonly database: Queryable;
  readonly clock: Pick<Clock, 'now' | 'frozen'>;
  readonly actor: Actor;
  /** Session of the author; a change fails once it has ended, even while its last token is still accepted. */
  readonly session_id?: string;
}

/** A row of `admin_changes`. It never contains a token, a hash or a secret. */
export interface AdminChange {
  readonly id: number;
  readonly at: Date;
  readonly actor: Actor;
  readonly action: AdminAction;
  /** Id of the token, session or grant, e-mail of the person, name of the upstream, or what is limited: `user ana@example.com per day`. */
  readonly subject: string;
  /** `null` for what did not exist before. */
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
}

/** The name of an actor in a token's `created_by`. */
export function actorLabel({ kind, name }: Actor): string {
  return kind === 'person' ? name : `${kind} ${name}`;
}

/** Filter of changes; every field that is present must match. */
export interface ChangeFilter {
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
  /** Author: whole words of the name, in any case. */
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  /** Subject, its owner or the result: whole words of an id, address or name, in any case. */
  readonly subject?: string | undefined;
}

/** SQL of a filter. Each combination is a statement of its own, so that it uses its index. Parameters: `valuesOf`. */
function meaning({ actor, action, subject }: ChangeFilter): { readonly name: string; readonly sql: string } {
  const parts = [
    ['actor', actor, 'words_of(actor) @> words_of($3)'],
    ['action', action, 'action = $4'],
    ['subject', subject, 'words_of(change_names(subject, before, after)) @> words_of($5)'],
  ] as const;
  const wanted_parts = parts.filter(([, wanted]) => wanted !== undefined);
  const period = '($1::timestamptz is null or at >= $1) and ($2::timestamptz is null or at < $2)';
  // Keeps the parameters of all statements alike.
  const typed = `num_nulls($3::text, $4::text, $5::text) >= 0`;
  return {
    name: wanted_parts.map(([name]) => `_${name}`).join(''),
    sql: [period, typed, ...wanted_parts.map(([, , condition]) => condition)].join(' and '),
  };
}

function valuesOf({ since, until, actor, action, subject }: ChangeFilter): unknown[] {
  const text = (value: string | undefined) => (value === undefined ? null : storable(value));
  return [since ?? null, until ?? null, text(actor), action ?? null, text(subject)];
}

/** Lists changes, the newest first; `before`: id of a change, to list older ones. Raises store_unavailable. */
export async function listChanges(
  database: Queryable,
  { before, limit, ...filter }: ChangeFilter & { readonly before?: number | undefined; readonly limit: number },
): Promise<AdminChange[]> {
  const { name, sql } = meaning(filter);
  return database.query<AdminChange>(
    `admin_changes_list${name}`,
    `select id, at, jsonb_build_object('kind', actor_kind, 'name', actor) as actor, action, subject, before, after
     from admin_changes where ${sql} and ($6::bigint is null or id < $6)
     order by id desc limit $7`,
    [...valuesOf(filter), before ?? null, limit],
  );
}

/** Counts the matching changes, up to `most`. Raises store_unavailable. */
export async function countChanges(database: Queryable, filter: ChangeFilter, most: number): Promise<number> {
  const { name, sql } = meaning(filter);
  const [row] = await database.query<{ count: number }>(
    `admin_changes_count${name}`,
    `select count(*) from (select from admin_changes where ${sql} limit $6) as meant`,
    [...valuesOf(filter), most],
  );
  return row!.count;
}

type Values = Readonly<Record<string, unknown>>;

interface Change {
  readonly actor: Actor;
  readonly subject: string;
  readonly before: Values;
  readonly after: Values;
  time(moment: unknown): string;
}

const TOKENS_ENDED: Readonly<Record<string, string>> = {
  all: 'all access tokens revoked',
  self_service: 'personal access tokens revoked',
  suspend: 'personal access tokens suspended',
  none: 'access tokens kept',
};

/** The rest of a sentence that begins with the author, per kind of change. */
const DEEDS = {
  'token.create': (row) => `made the access token ${tokenIn(row.after, row)}${successor(row)}${end(row, row.after)}`,
  'token.rotate': rotation('access token'),
  'token.revoke': (row) => `revoked the access token ${tokenIn(row.before, row)}${because(row.after.because)}`,
  'token.move': ({ subject, before, after }) =>
    `moved the access token ${subject} from ${ownerOf(before)} to ${ownerOf(after)}`,
  'session.end': ({ before, after, time }) =>
    `ended the session of ${text(before.user)} that began ${time(before.created_at)}${inBrackets(before.client)}${because(after.because)}`,
  'person.deprovision': ({ subject, after }) =>
    `deprovisioned ${subject}: sessions ended, ${TOKENS_ENDED[text(after.tokens)] ?? 'access tokens unchanged'}${because(after.because)}`,
  'person.suspend': ({ subject, after }) =>
    `suspended the personal access tokens of ${subject}${because(after.because)}`,
  'person.rebind': ({ subject, after }) =>
    `reassigned the address ${subject} to ${accountOf(after)}; ${count(after.sessions, 'session')} and ${count(after.tokens, 'access token')} ended`,
  'limit.set': ({ subject, before, after }) =>
    `set the limit of ${subject} to ${amountOf(after)}${was(amountOf(before))}${because(after.reason)}`,
  'limit.clear': ({ subject, before }) =>
    `cleared the limit of ${subject}${was(amountOf(before))}: gateway.yaml applies again`,
  'limit.grant': (row) => `granted ${grantIn(row.after)}${end(row, row.after)}${because(row.after.reason)}`,
  'limit.revoke': (row) => `revoked the grant of ${grantIn(row.before)}${end(row, row.before)}`,
  'service_token.create': (row) =>
    `made the service token ${serviceTokenIn(row.after)}${successor(row)}${end(row, row.after)}`,
  'service_token.rotate': rotation('service token'),
  'service_token.revoke': ({ before }) => `revoked the service token ${serviceTokenIn(before)}`,
  'upstream.drain': ({ subject, after }) => `drained the upstream ${subject}${because(after.reason)}`,
  'upstream.resume': ({ subject, after }) => `ended the drain of the upstream ${subject}${because(after.reason)}`,
  'ledger.reprice': ({ subject, after }) =>
    `repriced ${count(after.requests, 'request')} (${subject}): ${differenceOf(after.difference_usd)}`,
} satisfies Readonly<Record<string, (row: Change) => string>>;

/** A kind of change, as in the column `action` of `admin_changes`. */
export type AdminAction = keyof typeof DEEDS;

/** All of them. */
export const ADMIN_ACTION_NAMES = Object.keys(DEEDS) as readonly AdminAction[];

/** A change as a sentence. Names in it may contain any character: show it as text. */
export function changeInWords(change: Omit<AdminChange, 'id' | 'at'>, time_zone: string): string {
  const { actor, action, subject } = change;
  const row = { actor, subject, before: change.before ?? {}, after: change.after ?? {}, time: clockOf(time_zone) };
  // A later version may have written kinds that this one does not know.
  const deed = Object.hasOwn(DEEDS, action) ? DEEDS[action](row) : `did ${action} to ${subject}`;
  return `${nameOf(actor)} ${deed}`;
}

function nameOf({ kind, name }: Actor): string {
  if (kind === 'person') return name;
  if (kind === 'gateway') return `The gateway (${name})`;
  return kind === 'service' ? `Service token ${name}` : `${name} at the command line`;
}

function clockOf(time_zone: string): Change['time'] {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone: time_zone, dateStyle: 'short', timeStyle: 'short' });
  return (moment) => {
    const date = new Date(text(moment));
    return Number.isNaN(date.getTime()) ? text(moment) : `${format.format(date)} (${time_zone})`;
  };
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}

function is(value: unknown): boolean {
  return value !== null && value !== undefined;
}

function tokenIn({ name, user, group }: Values, { subject, actor }: Change): string {
  if (!is(name)) return subject;
  const whose = user === actor.name ? 'of their own' : `of ${text(user)}`;
  return `"${text(name)}" ${whose}, group ${text(group)}`;
}

function serviceTokenIn({ name, scopes }: Values): string {
  return `"${text(name)}"${Array.isArray(scopes) ? ` for ${scopes.map(text).join(', ')}` : ''}`;
}

function rotation(what: string): (row: Change) => string {
  return ({ subject, after, time }) =>
    `replaced the ${what} ${subject} by ${text(after.replaced_by)}; the old one works until ${time(after.expires_at)}`;
}

function successor({ after }: Change): string {
  return is(after.replaces) ? `, which replaces ${text(after.replaces)}` : '';
}

function end({ time }: Change, { expires_at }: Values): string {
  return is(expires_at) ? ` until ${time(expires_at)}` : '';
}

function because(reason: unknown): string {
  return is(reason) ? ` (${text(reason)})` : '';
}

function inBrackets(value: unknown): string {
  return is(value) ? ` with ${text(value)}` : '';
}

function ownerOf({ owner }: Values): string {
  return text(owner).replace(/^user:/, '');
}

function accountOf({ issuer, subject }: Values): string {
  return is(subject) ? `the account ${text(subject)} at ${text(issuer)}` : 'the next account that signs in with it';
}

function count(number: unknown, noun: string): string {
  return `${number === 0 ? 'no' : text(number)} ${noun}${number === 1 ? '' : 's'}`;
}

function amountOf(values: Values): string {
  if (is(values.usd)) return `${decimal(values.usd)} USD`;
  const unit = ['requests', 'tokens'].find((each) => is(values[each]));
  return unit === undefined ? '' : `${text(values[unit])} ${unit}`;
}

function was(amount: string): string {
  return amount === '' ? '' : `, before ${amount}`;
}

function grantIn(values: Values): string {
  const [, who, per] = /^(.*) (per \w+|at once)$/s.exec(text(values.to)) ?? [];
  return who === undefined
    ? `${amountOf(values)} more to ${text(values.to)}`
    : `${amountOf(values)} more ${per} to ${who}`;
}

function differenceOf(difference: unknown): string {
  const usd = text(difference);
  return usd.startsWith('-') ? `${usd.slice(1)} USD less` : `${usd} USD more`;
}

/** Without an exponent, as people write amounts. */
function decimal(value: unknown): string {
  return typeof value === 'number' ? value.toFixed(9).replace(/\.?0+$/, '') : text(value);
}
