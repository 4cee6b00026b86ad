import type { IncomingMessage } from 'node:http';
import type { Changing } from '../../audit/admin-changes.ts';
import type { GatewayConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import type { BearerTokens, Clock, Log, ModelCatalog } from '../../contract/services.ts';
import type { Sessions } from '../../identity/sessions/sessions.ts';
import type { ServiceScope } from '../../identity/tokens/service-scopes.ts';
import { KeyTable } from '../../kit/json/key-names.ts';
import { isPlain, jsonTypeProblem } from '../../kit/media-type.ts';
import { HeldBody } from '../../run/body.ts';
import { BodyBudget, HeldBytes } from '../../run/body-budget.ts';
import { receiveBody } from '../../run/receive-body.ts';
import type { Caller } from './caller.ts';
import { bodyFields, type Fields, queryFields } from './fields.ts';

/** What the admin API works with: one configuration, and the services behind it. */
export interface AdminOptions {
  readonly config: GatewayConfig;
  /** Absent where the configuration has no sign-in; then nobody gets in. */
  readonly identity: { readonly sessions: Pick<Sessions, 'list'> } | undefined;
  readonly database: Changing['database'];
  readonly clock: Clock;
  readonly log: Log;
  readonly verify: BearerTokens['verify'];
  /** Resolves when this process goes by what was changed. */
  catchUp(): Promise<void>;
  readonly models: ModelCatalog;
}

/** One request of somebody who may ask. */
export interface AdminCall {
  readonly caller: Caller;
  /** Who changes what the call changes. */
  readonly by: Changing;
  /** A part of the path; empty when there is none of this name. */
  param(name: string): string;
  /** The query, which may hold these parameters. Raises invalid_request. */
  query(...known: string[]): Fields;
  /** The JSON body, which may hold these fields; no body is an empty one. Raises invalid_request, invalid_json, body_too_large, request_timeout. */
  body(...known: string[]): Promise<Fields>;
}

/** What a call is answered with, as JSON. */
export interface AdminAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: object;
}

/** One operation of the admin API. */
export interface AdminRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** As OpenAPI writes it: `/admin/api/tokens/{id}`. */
  readonly path: string;
  /** What a service token needs for it; `person`: none is enough. */
  readonly scope: ServiceScope | 'person';
  /** Set for a deletion of what has no id: the query names it. All else that changes something is told how in its body. */
  readonly told_in?: 'query';
  answer(call: AdminCall): Promise<AdminAnswer> | AdminAnswer;
}

const MAX_BODY_BYTES = 65_536;
/** For all requests of one configuration at once. */
const MAX_BUFFERED_BYTES = 16 * MAX_BODY_BYTES;
const MAX_BUFFERED_BYTES_PER_CALLER = 4 * MAX_BODY_BYTES;
const ID = /^[\w-]{1,64}$/;
const isToken = (id: string) => /^(?:gw[rs]?_|eyJ)/.test(id);

/** Makes the calls of requests. */
export function createCalls({ config, database, clock }: AdminOptions) {
  const budget = new BodyBudget(MAX_BUFFERED_BYTES, MAX_BUFFERED_BYTES_PER_CALLER);
  const { request_body_seconds: total_seconds, request_silence_seconds: silence_seconds } = config.server.timeouts;
  const limits = { max_bytes: MAX_BODY_BYTES, total_seconds, silence_seconds };
  return (
    req: IncomingMessage & { originalUrl: string; params: Record<string, unknown> },
    caller: Caller,
  ): AdminCall => ({
    caller,
    by: {
      database,
      clock,
      actor: caller.actor,
      ...(caller.scopes === undefined && { session_id: caller.principal.token.id }),
    },
    param: (name) => String(req.params[name] ?? ''),
    query: (...known) => queryFields(req.originalUrl, known),
    async body(...known) {
      const { 'content-length': length, 'transfer-encoding': coding } = req.headers;
      if (coding === undefined && (length === undefined || length === '0')) return bodyFields({}, known);
      demandJson(req);
      const room = new HeldBytes(budget, caller.principal.id);
      try {
        const held = new HeldBody(await receiveBody(req, limits, room, clock), () => {});
        const names = new KeyTable(known.map((name) => ({ name, decides: 'top' })));
        return bodyFields(await held.json(names), known);
      } finally {
        room.release();
      }
    },
  });
}

function demandJson({ headers }: IncomingMessage): void {
  const { 'content-type': type = '', 'content-encoding': coding } = headers;
  if (jsonTypeProblem(type) !== undefined) {
    throw notTaken('The body must be JSON, sent with "content-type: application/json".');
  }
  if (!isPlain(coding)) throw notTaken('The body must not be compressed.');
}

function notTaken(message: string): StageError {
  return new StageError('invalid_request', message, { status: 415 });
}

/** The id in a path. Raises not_found for what can't be one. */
export function idOf(call: AdminCall, what: string): string {
  const id = call.param('id');
  // An error never repeats a credential that somebody took for an id.
  if (!ID.test(id) || isToken(id)) throw nothingThere(`There is no ${what} with this id.`);
  return id;
}

/** The error for something that does not exist, or is none of the caller's business. */
export function nothingThere(message: string): StageError {
  return new StageError('not_found', message);
}

const PAGE = 100;
const MAX_PAGE = 1000;

/** How many entries of a list are asked for. */
export function pageSize(query: Fields): number {
  return query.integer('limit', { min: 1, max: MAX_PAGE }) ?? PAGE;
}

/** One page of a list of one entry more than it has room for, and where the next one begins. */
export function pageOf<Entry extends { readonly id: string | number }>(
  entries: readonly Entry[],
  limit: number,
): { readonly entries: readonly Entry[]; readonly next: Entry['id'] | null } {
  const page = entries.slice(0, limit);
  return { entries: page, next: entries.length > limit ? page.at(-1)!.id : null };
}
