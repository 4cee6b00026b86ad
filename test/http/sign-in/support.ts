/** Sign-in over HTTP on a database of its own, with a scripted identity provider. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach } from 'node:test';
import express, { Router } from 'express';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { StageError } from '../../../engine/base/contract/errors.ts';
import type { Operation } from '../../../engine/base/contract/telemetry.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import type { Identity } from '../../../engine/domain/identity/identity.ts';
import type { Admission } from '../../../engine/domain/identity/provider/admit.ts';
import {
  type Claims,
  type Identified,
  ProviderError,
  type ProviderGrant,
  type SignInAttempt,
} from '../../../engine/domain/identity/provider/provider.ts';
import type { IdentityProvider } from '../../../engine/domain/identity/provider/provider-client.ts';
import { createAttemptLimits } from '../../../engine/domain/identity/sessions/attempt-limits.ts';
import { createConsoleSessions } from '../../../engine/domain/identity/sessions/console-sessions.ts';
import { createDeviceGrants } from '../../../engine/domain/identity/sessions/device-grants.ts';
import { claimProblem } from '../../../engine/domain/identity/sessions/people.ts';
import { createSessionTokens } from '../../../engine/domain/identity/sessions/session-tokens.ts';
import { createSessions, type RefreshBegun } from '../../../engine/domain/identity/sessions/sessions.ts';
import { signInRoutes } from '../../../engine/edge/http/sign-in/index.ts';
import { send } from '../../e2e/support/client.ts';
import { configWith } from '../../identity/sessions/configuration.ts';
import { type TestStore, useTestStore } from '../../support/store.ts';
import { closing, use } from '../../support/use.ts';

export const ISSUER = 'https://gateway.example.com';
const PROVIDER = 'https://id.example.com';
const CLIENT_SECRET = 'client-secret-91c2f7d07be1';

/** A configuration with sign-in; `server` replaces its section. */
export function signInConfig(server: object = {}): GatewayConfig {
  const config = configWith();
  const timeouts = { ...config.server.timeouts, request_body_seconds: 30 };
  const limits = { ...config.server.limits, body_bytes: 1_000_000 };
  return { ...config, server: { ...config.server, timeouts, limits, public_url: ISSUER, ...server } };
}

/** The claims of an admitted user. */
export const ANNA = {
  iss: PROVIDER,
  sub: 'anna-1',
  email: 'anna@example.com',
  email_verified: true,
  name: 'Anna',
  groups: ['engineering'],
};

/** A test's view of the parts behind the routes. */
type Backstage = ReturnType<typeof createBackstage>;

/** Sends a request to the routes. */
export type Ask = (
  method: string,
  path: string,
  more?: { form?: Record<string, string> | string; headers?: Record<string, string> },
) => ReturnType<typeof send>;

function scriptedProvider(backstage: Backstage): IdentityProvider {
  return {
    async authorizationUrl(attempt, how) {
      const url = backstage.provider.url();
      if (how?.other_account) url.searchParams.set('prompt', 'login');
      backstage.attempts.push(attempt);
      url.searchParams.set('state', attempt.state);
      return url;
    },
    async identify(callback) {
      backstage.callbacks.push(callback);
      return backstage.provider.identify();
    },
    recheck: async (grant) => backstage.provider.recheck(grant),
    async reach() {},
    revoke: async () => true,
    signOutUrl: async () => undefined,
  };
}

function createBackstage() {
  const grant: ProviderGrant = { subject: ANNA.sub, refresh_token: 'provider-refresh-77' };
  const identify = (): Identified => ({ claims: ANNA, grant });
  const recheck: (grant: ProviderGrant) => Identified | Promise<Identified> = identify;
  return {
    clock: frozenClock('2026-11-21T12:00:00Z'),
    logs: [] as string[],
    /** What telemetry got. */
    operations: [] as Operation[],
    /** The identity provider's response; throws a test's errors. */
    provider: { url: () => new URL(`${PROVIDER}/authorize`), identify, recheck },
    /** The parameters of browsers on the way to the identity provider, and on the way back. */
    attempts: [] as SignInAttempt[],
    callbacks: [] as URL[],
    /** While true every store raises store_unavailable. */
    store_down: false,
    /** A test's result of `beginRefresh`. */
    refresh_outcome: undefined as RefreshBegun['outcome'] | undefined,
    /** The users the gateway admits: all, unless a test replaces it. */
    admit: ({ sub, email }: Claims): Admission => ({
      person: { issuer: PROVIDER, subject: String(sub), email: String(email), groups: ['engineering'] },
    }),
  };
}

function createRoutes(config: GatewayConfig, backstage: Backstage, store: TestStore): Router {
  const { clock } = backstage;
  const database: Pick<Database, 'query'> = {
    async query(...statement) {
      if (backstage.store_down) throw new StageError('store_unavailable', 'The database is away.');
      return store.database.query(...statement);
    },
  };
  const note = (fields: object, message: string) => void backstage.logs.push(`${message} ${JSON.stringify(fields)}`);
  const log = { debug: note, info: note, warn: note, error: note };
  const revocations = { has: () => false };
  const sessions = createSessions({ database, clock, busy_timeout_ms: 0 });
  const identity: Identity = {
    provider: scriptedProvider(backstage),
    tokens: createSessionTokens({ config, secret: () => CLIENT_SECRET, clock, revocations, log }),
    console_sessions: createConsoleSessions({ database, clock }),
    sessions: {
      ...sessions,
      async beginRefresh(presented) {
        const outcome = backstage.refresh_outcome;
        if (outcome === undefined) return sessions.beginRefresh(presented);
        return { outcome, session: { id: 'ses_0', person: { email: 'anna' } } } as RefreshBegun;
      },
    },
    device_grants: createDeviceGrants({ database, clock, refresh_days: 30 }),
    attempts: createAttemptLimits({ database, clock, limits: config.auth!.limits, log }),
    admit: (claims) => backstage.admit(claims),
    claimProblem: (person) => claimProblem(database, person),
    catchUp: async () => {},
    isVerified: ({ issuer }) => issuer !== 'https://former.example.com',
  };
  const telemetry = { operation: (operation: Operation) => void backstage.operations.push(operation) };
  return signInRoutes({ config, identity, database, clock, log, telemetry });
}

/** Serves routers on a port of the loopback address. */
export async function serve(router: Router): Promise<{ url: string; close(): Promise<void> }> {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.use(router);
  const server = createServer(app);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Makes the function that sends requests to a server; forms are encoded, texts sent as they are. */
function askAt(served: { readonly url: string }): Ask {
  return (method, path, { form, headers = {} } = {}) => {
    const body = form === undefined || typeof form === 'string' ? form : new URLSearchParams(form).toString();
    const type = body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' };
    const flat = Object.entries({ ...type, ...headers }).flat();
    return send(served.url, { method, path, headers: flat, ...(body === undefined ? {} : { body }) });
  };
}

/** Serves a router during a test. */
export async function whileServed<Result>(router: Router, test: (ask: Ask) => Promise<Result>): Promise<Result> {
  await using served = closing(await serve(router));
  return await test(askAt(served));
}

/** The cookie a response sets, as a browser sends it back. */
function cookieOf({ headers }: Awaited<ReturnType<Ask>>): string {
  return headers['set-cookie']?.[0]?.split(';', 1)[0] ?? '';
}

/** Headers of a form that is sent from the gateway's own page. */
export const SAME_ORIGIN = { origin: ISSUER, 'sec-fetch-site': 'same-origin' };

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/** An identity provider that has a problem. */
export const fails =
  (problem: ProviderError['problem'], words = 'the token endpoint was not nice', more?: { grant: ProviderGrant }) =>
  () => {
    throw new ProviderError(problem, words, more);
  };

/** Serves the routes for the tests of a file, afresh for each test; a program's and a browser's steps there, one by one. */
export function useSignIn(config = signInConfig()) {
  let current: Router;
  const backstage = createBackstage();
  const { store } = useTestStore();
  const served = use(() => serve(Router().use((req, res, next) => current(req, res, next))));
  beforeEach(async () => {
    await store.database.knex.raw('truncate attempts, device_grants, principals cascade');
    current = createRoutes(config, Object.assign(backstage, createBackstage()), store);
  });
  /** The rows of a table. */
  const rows = (table: string) => store.database.knex(table).select();
  const ask = askAt(served);
  /** Begins a sign-in as a program does. */
  const begin = async (headers: Record<string, string> = {}) => {
    const response = await ask('POST', '/oauth/device_authorization', { form: {}, headers });
    assert.equal(response.status, 200, response.text);
    return response.json() as { device_code: string; user_code: string; verification_uri_complete: string };
  };
  /** Loads the page of a code, as typed into the address. */
  const see = (user_code: string, headers = {}) => ask('GET', `/device?user_code=${user_code}`, { headers });
  /** Sends the form of that page. */
  const answer = (user_code: string, action = 'approve', headers: Record<string, string> = SAME_ORIGIN) =>
    ask('POST', '/device', { form: { user_code, action }, headers });
  /** Confirms a code as a user does; returns the browser's cookie and state. */
  const leave = async (user_code: string, action = 'approve') => {
    const response = await answer(user_code, action);
    assert.equal(response.status, 303, response.text);
    const location = new URL(String(response.headers.location));
    return { response, location, cookie: cookieOf(response), state: String(location.searchParams.get('state')) };
  };
  /** A sign-in whose user is at the identity provider. */
  const away = async () => {
    const begun = await begin();
    return { ...begun, ...(await leave(begun.user_code)) };
  };
  /** Returns from the identity provider. */
  const comeBack = ({ cookie, state }: { cookie: string; state: string }, more = '', headers = {}) =>
    ask('GET', `/oauth/callback?code=code-1&state=${state}${more}`, { headers: { cookie, ...headers } });
  const token = (form: Record<string, string>) => ask('POST', '/oauth/token', { form });
  const poll = (device_code: string) => token({ grant_type: DEVICE_GRANT, device_code, client_id: 'anything' });
  const renew = (refresh_token: string) => token({ grant_type: 'refresh_token', refresh_token });
  /** Signs Anna in. */
  const signIn = async () => {
    const begun = await away();
    await comeBack(begun);
    return (await poll(begun.device_code)).json() as { access_token: string; refresh_token: string };
  };
  return { served, backstage, rows, ask, begin, see, answer, leave, away, comeBack, token, poll, renew, signIn };
}

/** Asserts an OAuth error as RFC 6749 has it. */
export function assertError(response: Awaited<ReturnType<Ask>>, status: number, error: string, words = /./) {
  assert.equal(response.status, status, response.text);
  assert.equal(response.headers['content-type'], 'application/json');
  assert.equal(response.headers['cache-control'], 'no-store');
  assert.equal(response.json().error, error);
  // The characters that RFC 6749 allows in it.
  assert.match(response.json().error_description, /^[ -!#-[\]-~]+$/);
  assert.match(response.json().error_description, words);
}

/** Asserts that a page is shown, and its text. */
export function assertPage(response: Awaited<ReturnType<Ask>>, status: number, words: RegExp): void {
  assert.equal(response.status, status, response.text);
  assert.equal(response.headers['content-type'], 'text/html; charset=utf-8');
  const [, said = ''] = response.text.split('<main>');
  assert.match(said, words);
}
