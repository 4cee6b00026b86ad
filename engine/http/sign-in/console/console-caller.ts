import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Caller, programCaller } from '../../../admin/caller.ts';
import type { GatewayConfig } from '../../../contract/config.ts';
import { StageError } from '../../../contract/errors.ts';
import type { Clock, Log } from '../../../contract/services.ts';
import type { Telemetry } from '../../../contract/telemetry.ts';
import type { Identity } from '../../../identity/index.ts';
import { issuerOf } from '../../../identity/provider/issuer.ts';
import {
  type ConsoleSession,
  type ConsoleSessions,
  createConsoleSessions,
} from '../../../identity/sessions/console-sessions.ts';
import type { Database } from '../../../store/database.ts';
import { createOriginReader } from '../../forwarded.ts';
import { demandLocal } from './local-request.ts';
import { createRecheck } from './recheck.ts';
import { type SessionCookie, sessionCookie } from './session-cookie.ts';
import { CONSOLE_HEADER, demandTrusted } from './trusted-request.ts';

/** What the sessions of browsers are told by. */
export interface ConsoleCallerOptions {
  readonly config: GatewayConfig;
  /** Absent where there is no identity provider: then a link opens the console. */
  readonly identity: Identity | undefined;
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly telemetry: Pick<Telemetry, 'operation'>;
}

/** Whose a request is, and the session by which that is known. */
export interface ConsoleVisit {
  readonly caller: Caller;
  readonly session: ConsoleSession;
}

/** Finds out who asks by the cookie of a browser. */
export interface ConsoleCallers {
  readonly cookie: SessionCookie;
  readonly sessions: ConsoleSessions;
  /** Whether a request comes from a browser with a session, or from the console without one. */
  concerns(req: Pick<IncomingMessage, 'headers'>): boolean;
  /** The session of a request of the console, whoever has it and whether or not they may still be here. Raises forbidden. */
  find(req: IncomingMessage): Promise<ConsoleSession | undefined>;
  /**
   * Who asks. Gives the browser another cookie where what they may do has changed. A request that a page makes
   * by itself, with nobody there, does not keep the session: its header says so (`x-console: 0`).
   * Raises credential_missing, credential_expired, credential_revoked, forbidden, temporarily_unavailable, store_unavailable.
   */
  identify(req: IncomingMessage, res: ServerResponse): Promise<ConsoleVisit>;
}

/** Makes what tells callers by the cookie of the console, for one configuration. */
export function createConsoleCallers(options: ConsoleCallerOptions): ConsoleCallers {
  const { config, identity, database, clock } = options;
  const issuer = issuerOf(config);
  const { origin } = new URL(issuer);
  const cookie = sessionCookie(issuer);
  const origin_reader = createOriginReader(config.server);
  const sessions = identity?.console_sessions ?? createConsoleSessions({ database, clock });
  const callerOf = createCallerOf(options, sessions, cookie);

  const lookUp = async (req: IncomingMessage, text: string): Promise<ConsoleSession | undefined> => {
    if (identity === undefined || identity.tokens.marks.fit(text)) return sessions.find(text);
    const address = origin_reader.address(req.socket.remoteAddress, req.headers);
    const attempt = { text, address, is_ours: false };
    const asked = await identity.attempts.ask(
      attempt,
      () => sessions.find(text),
      (found) => found !== undefined,
    );
    if ('answer' in asked) return asked.answer;
    const problem = 'Too many requests from your address came to nothing; try again later.';
    const headers = { 'retry-after': String(asked.retry_after_seconds) };
    throw new StageError('temporarily_unavailable', problem, { headers });
  };

  return {
    cookie,
    sessions,
    concerns: ({ headers }) => cookie.read(headers) !== undefined || headers[CONSOLE_HEADER] !== undefined,
    async find(req) {
      const text = cookie.read(req.headers);
      if (text === undefined) return undefined;
      demandTrusted(req, origin);
      return lookUp(req, text);
    },
    async identify(req, res) {
      const text = cookie.read(req.headers);
      if (text === undefined) throw new StageError('credential_missing', 'You are signed out: sign in to the console.');
      demandTrusted(req, origin);
      const session = await lookUp(req, text);
      if (session === undefined) throw new StageError('credential_expired', OVER);
      const caller = await callerOf(session, req, res);
      if (req.headers[CONSOLE_HEADER] === '1') await sessions.keep(session);
      return { caller, session };
    },
  };
}

const OVER = 'Your session is over: it was ended, or not used for 30 minutes. Sign in again.';

function createCallerOf(options: ConsoleCallerOptions, sessions: ConsoleSessions, cookie: SessionCookie) {
  const { identity, config } = options;
  const recheck = identity === undefined ? undefined : createRecheck({ ...options, identity });
  return async (session: ConsoleSession, req: IncomingMessage, res: ServerResponse): Promise<Caller> => {
    const { person: about, operator } = session;
    if (operator !== undefined) {
      // Who could print a link before there was an identity provider is asked to sign in once there is one.
      if (identity !== undefined) throw new StageError('credential_revoked', 'People sign in now: sign in.');
      demandLocal(req, config);
      return programCaller(`command:${operator}`, operator, { kind: 'command', name: operator });
    }
    if (identity === undefined || recheck === undefined || about === undefined || about.revoked_at !== null) {
      throw new StageError('credential_revoked', OVER);
    }
    const before = identity.tokens.principalOf(about.session_id, about.person);
    const { person, is_anew } = await recheck(about);
    const principal = is_anew ? identity.tokens.principalOf(about.session_id, person) : before;
    const current = { ...principal, groups: principal.groups.filter((group) => person.groups.includes(group)) };
    if (is_anew && String(principal.groups) !== String(before.groups)) {
      const next = await sessions.replace(session);
      if (next !== undefined) res.setHeader('set-cookie', cookie.keep(next));
    }
    const { email } = principal;
    return {
      principal: current,
      email,
      is_admin: current.roles.includes('admin'),
      actor: { kind: 'person', name: email },
    };
  };
}
