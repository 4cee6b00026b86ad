import type { Clock } from '../../base/contract/services.ts';
import { storable } from '../../base/kit/storable.ts';
import type { Database } from '../../base/store/database.ts';

/**
 * Who changes something: a signed-in person by e-mail, somebody at a command line as user@host, a part of the gateway, or a
 * service token by its name and id, with who answers for it.
 */
export interface Actor {
  readonly kind: 'person' | 'command' | 'gateway' | 'service';
  readonly name: string;
}

/** What a change needs beside the change itself: where, when and by whom. */
export interface Changing {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Pick<Clock, 'now' | 'frozen'>;
  readonly actor: Actor;
  /** The session through which a person acts: nothing is made when it has ended, though its token is not refused yet. */
  readonly session_id?: string;
}

/** What can be done, as `admin_changes` names it. */
export const ADMIN_ACTION_NAMES = [
  'token.create',
  'token.rotate',
  'token.revoke',
  'token.move',
  'session.end',
  'person.deprovision',
  'person.suspend',
  'person.rebind',
  'limit.set',
  'limit.clear',
  'limit.grant',
  'limit.revoke',
  'service_token.create',
  'service_token.rotate',
  'service_token.revoke',
  'upstream.drain',
  'upstream.resume',
  'ledger.reprice',
] as const;

/** What was done. */
export type AdminAction = (typeof ADMIN_ACTION_NAMES)[number];

/** One change an administrator, a person or the gateway made. Never holds a token, a hash or a secret. */
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

/** The name of an actor as a token's `created_by` tells it. */
export function actorLabel({ kind, name }: Actor): string {
  return kind === 'person' ? name : `${kind} ${name}`;
}

/** Which changes are meant; every field that is present must match. */
export interface ChangeFilter {
  /** From this moment on. */
  readonly since?: Date | undefined;
  /** Before this moment. */
  readonly until?: Date | undefined;
  /** Who made it: whole words of the name, in any case. */
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  /** What it was done to, whose that is, or what came of it: whole words of an id, address or name, in any case. */
  readonly subject?: string | undefined;
}

/** SQL for what is asked for, so that each statement uses the index that leads to it. The parameters are those of `valuesOf`. */
function meaning({ actor, action, subject }: ChangeFilter): { readonly name: string; readonly sql: string } {
  const parts = [
    ['actor', actor, 'words_of(actor) @> words_of($3)'],
    ['action', action, 'action = $4'],
    ['subject', subject, 'words_of(change_names(subject, before, after)) @> words_of($5)'],
  ] as const;
  const asked = parts.filter(([, wanted]) => wanted !== undefined);
  const period = '($1::timestamptz is null or at >= $1) and ($2::timestamptz is null or at < $2)';
  // A statement has all its parameters, whatever it asks for.
  const typed = `num_nulls($3::text, $4::text, $5::text) >= 0`;
  return {
    name: asked.map(([name]) => `_${name}`).join(''),
    sql: [period, typed, ...asked.map(([, , condition]) => condition)].join(' and '),
  };
}

function valuesOf({ since, until, actor, action, subject }: ChangeFilter): unknown[] {
  const text = (value: string | undefined) => (value === undefined ? null : storable(value));
  return [since ?? null, until ?? null, text(actor), action ?? null, text(subject)];
}

/**
 * Changes, the newest first. `before` is the id of a change: only older ones, for the next page. Raises store_unavailable.
 */
export async function listChanges(
  database: Pick<Database, 'query'>,
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

/** How many changes are meant, counted up to `most`. Raises store_unavailable. */
export async function countChanges(
  database: Pick<Database, 'query'>,
  filter: ChangeFilter,
  most: number,
): Promise<number> {
  const { name, sql } = meaning(filter);
  const [row] = await database.query<{ count: number }>(
    `admin_changes_count${name}`,
    `select count(*) from (select from admin_changes where ${sql} limit $6) as meant`,
    [...valuesOf(filter), most],
  );
  return row!.count;
}

type Values = Readonly<Record<string, unknown>>;

/** A change with everything a sentence about it may need. */
interface Told {
  readonly actor: Actor;
  readonly subject: string;
  readonly before: Values;
  readonly after: Values;
  /** A moment in the time zone of the sentence. */
  time(moment: unknown): string;
}

/** What somebody did, as the rest of a sentence that begins with who. */
const DEEDS: Readonly<Record<AdminAction, (told: Told) => string>> = {
  'token.create': (told) =>
    `made the access token ${tokenIn(told.after, told)}${successor(told)}${end(told, told.after)}`,
  'token.rotate': rotation('access token'),
  'token.revoke': (told) => `revoked the access token ${tokenIn(told.before, told)}${because(told.after.because)}`,
  'token.move': ({ subject, before, after }) =>
    `moved the access token ${subject} from ${ownerOf(before)} to ${ownerOf(after)}`,
  'session.end': ({ before, after, time }) =>
    `ended the session of ${text(before.user)} that began ${time(before.created_at)}${inBrackets(before.client)}${because(after.because)}`,
  'person.deprovision': ({ subject, after }) =>
    `deprovisioned ${subject}: sessions end, ${TOKENS_ENDED[text(after.tokens)] ?? 'access tokens as they were'}${because(after.because)}`,
  'person.suspend': ({ subject, after }) =>
    `suspended the access tokens that ${subject} has made${because(after.because)}`,
  'person.rebind': ({ subject, after }) =>
    `gave the address ${subject} to ${accountOf(after)}; ${count(after.sessions, 'session')} and ${count(after.tokens, 'access token')} ended`,
  'limit.set': ({ subject, before, after }) =>
    `set the limit of ${subject} to ${amountOf(after)}${was(amountOf(before))}${because(after.reason)}`,
  'limit.clear': ({ subject, before }) =>
    `cleared the limit of ${subject}${was(amountOf(before))}: what gateway.yaml says is in force`,
  'limit.grant': (told) => `granted ${grantIn(told.after)}${end(told, told.after)}${because(told.after.reason)}`,
  'limit.revoke': (told) => `took back the grant of ${grantIn(told.before)}${end(told, told.before)}`,
  'service_token.create': (told) =>
    `made the service token ${serviceTokenIn(told.after)}${successor(told)}${end(told, told.after)}`,
  'service_token.rotate': rotation('service token'),
  'service_token.revoke': ({ before }) => `revoked the service token ${serviceTokenIn(before)}`,
  'upstream.drain': ({ subject, after }) => `drained the upstream ${subject}${because(after.reason)}`,
  'upstream.resume': ({ subject, after }) =>
    `let the upstream ${subject} have new requests again${because(after.reason)}`,
  'ledger.reprice': ({ subject, after }) =>
    `priced ${count(after.requests, 'request')} anew (${subject}): ${differenceOf(after.difference_usd)}`,
};

const TOKENS_ENDED: Readonly<Record<string, string>> = {
  all: 'all access tokens are revoked',
  self_service: 'access tokens of their own making are revoked',
  suspend: 'access tokens of their own making are suspended',
  none: 'access tokens stay',
};

/**
 * A change as one sentence for people, who comes first: `ana@example.com granted 20 USD more per day to user bob@example.com
 * until 2027-01-31 18:00 (UTC)`. It may hold any character of a name: show it as text.
 */
export function changeInWords(change: Omit<AdminChange, 'id' | 'at'>, time_zone: string): string {
  const { actor, action, subject } = change;
  const told = { actor, subject, before: change.before ?? {}, after: change.after ?? {}, time: clockOf(time_zone) };
  // A later version of the gateway may have written what this one does not know.
  const deed = Object.hasOwn(DEEDS, action) ? DEEDS[action](told) : `did ${action} to ${subject}`;
  return `${nameOf(actor)} ${deed}`;
}

function nameOf({ kind, name }: Actor): string {
  if (kind === 'person') return name;
  if (kind === 'gateway') return `The gateway (${name})`;
  return kind === 'service' ? `Service token ${name}` : `${name} at the command line`;
}

function clockOf(time_zone: string): Told['time'] {
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

function tokenIn({ name, user, group }: Values, { subject, actor }: Told): string {
  if (!is(name)) return subject;
  const whose = user === actor.name ? 'of their own' : `of ${text(user)}`;
  return `"${text(name)}" ${whose}, group ${text(group)}`;
}

function serviceTokenIn({ name, scopes }: Values): string {
  return `"${text(name)}"${Array.isArray(scopes) ? ` for ${scopes.map(text).join(', ')}` : ''}`;
}

function rotation(what: string): (told: Told) => string {
  return ({ subject, after, time }) =>
    `replaced the ${what} ${subject} by ${text(after.replaced_by)}; the old one works until ${time(after.expires_at)}`;
}

function successor({ after }: Told): string {
  return is(after.replaces) ? `, which replaces ${text(after.replaces)}` : '';
}

function end({ time }: Told, { expires_at }: Values): string {
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

/** `20 USD`; empty where there is none. */
function amountOf(values: Values): string {
  if (is(values.usd)) return `${decimal(values.usd)} USD`;
  const unit = ['requests', 'tokens'].find((each) => is(values[each]));
  return unit === undefined ? '' : `${text(values[unit])} ${unit}`;
}

function was(amount: string): string {
  return amount === '' ? '' : `, before ${amount}`;
}

/** `20 USD more per day to user bob@example.com`. */
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
