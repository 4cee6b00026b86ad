/** Sign-in over HTTP in front of stores in memory and an identity provider that says what it is told to. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach } from 'node:test';
import express, { Router } from 'express';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { StageError } from '../../../engine/contract/errors.ts';
import type { Operation } from '../../../engine/contract/telemetry.ts';
import { signInRoutes } from '../../../engine/http/sign-in/index.ts';
import type { Identity } from '../../../engine/identity/index.ts';
import type { Admission } from '../../../engine/identity/provider/admit.ts';
import type {
  Claims,
  Identified,
  IdentityProvider,
  ProviderGrant,
  SignInAttempt,
} from '../../../engine/identity/provider/provider.ts';
import type { ClaimProblem } from '../../../engine/identity/sessions/bindings.ts';
import { createConsoleSessions } from '../../../engine/identity/sessions/console-sessions.ts';
import { createSessionTokens } from '../../../engine/identity/sessions/session-tokens.ts';
import type { OpenSession, RefreshBegun } from '../../../engine/identity/sessions/sessions.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { send } from '../../e2e/support/client.ts';
import { memoryAttempts, memoryGrants, memorySessions } from './memory.ts';

export const ISSUER = 'https://gateway.example.com';
export const PROVIDER = 'https://id.example.com';
export const CLIENT_SECRET = 'client-secret-91c2f7d07be1';

/** A configuration with sign-in; `server` and `auth` replace what is there. */
export function signInConfig(more: { server?: object; auth?: object } = {}): GatewayConfig {
  return {
    server: {
      listen: '127.0.0.1:0',
      public_url: ISSUER,
      profile: { header_prefix: 'vendor' },
      trusted_proxies: [],
      limits: {
        body_bytes: 1_000_000,
        header_bytes: 16_384,
        buffered_bytes: 1_000_000,
        json_depth: 128,
        json_values: 500_000,
      },
      timeouts: {
        connect_seconds: 30,
        first_byte_seconds: 120,
        unstreamed_first_byte_seconds: 600,
        idle_seconds: 300,
        drain_seconds: 30,
        request_body_seconds: 30,
      },
      ...more.server,
    },
    token_groups: [],
    telemetry: { forward_to: [] },
    auth: {
      oidc: {
        issuer_url: PROVIDER,
        client_id: 'gateway',
        client_secret_env: 'SECRET',
        groups_claim: 'groups',
        email_claim: 'email',
        authorization_parameters: {},
      },
      session: { previous_signing_keys: [], ttl_minutes: 60, refresh_days: 30 },
      self_made_tokens: { check_minutes: 60 },
      teams: [],
      projects: [],
      limits: {
        device_authorizations: 30,
        code_submissions: 10,
        requests: 6000,
        refused_credentials: 300,
        window_seconds: 600,
      },
      ...more.auth,
    },
  } as unknown as GatewayConfig;
}

/** The claims of a person whom nothing keeps out. */
export const ANNA = {
  iss: PROVIDER,
  sub: 'anna-1',
  email: 'anna@example.com',
  email_verified: true,
  name: 'Anna',
  groups: ['engineering'],
};

/** What a test can see and say of the parts behind the routes. */
export interface Backstage {
  readonly clock: FrozenClock;
  readonly logs: string[];
  /** What telemetry was told. */
  readonly operations: Operation[];
  /** What the identity provider answers; throws what a test wants thrown. */
  provider: { url(): URL; identify(): Identified; recheck(grant: ProviderGrant): Identified | Promise<Identified> };
  /** What browsers were sent to the identity provider with, and came back with. */
  readonly attempts: SignInAttempt[];
  readonly callbacks: URL[];
  /** While true every store raises store_unavailable. */
  store_down: boolean;
  /** What `beginRefresh` answers instead of its own mind. */
  refresh_outcome: RefreshBegun['outcome'] | undefined;
  readonly sessions: Map<string, { open: OpenSession; sealed_grant: string; ended?: string; busy: boolean }>;
  /** Why nobody may have the address they tell. */
  claim_problem: ClaimProblem | undefined;
  /** Attempts counted, by kind and address. */
  readonly counted: Map<string, number>;
  /** Names of database statements, in order. */
  readonly statements: string[];
  /** Whom the gateway admits: everybody, unless a test replaces it. */
  admit(claims: Claims): Admission;
}

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

function createBackstage(): Backstage {
  const identified = (): Identified => ({
    claims: ANNA,
    grant: { subject: ANNA.sub, refresh_token: 'provider-refresh-77' },
  });
  return {
    clock: frozenClock('2026-11-21T12:00:00Z'),
    logs: [],
    operations: [],
    provider: { url: () => new URL(`${PROVIDER}/authorize`), identify: identified, recheck: identified },
    attempts: [],
    callbacks: [],
    store_down: false,
    refresh_outcome: undefined,
    claim_problem: undefined,
    sessions: new Map(),
    counted: new Map(),
    statements: [],
    admit: ({ sub, email }) => ({
      person: { issuer: PROVIDER, subject: String(sub), email: String(email), groups: ['engineering'] },
    }),
  };
}

function createRoutes(config: GatewayConfig, backstage: Backstage): Router {
  const { clock } = backstage;
  const check = () => {
    if (backstage.store_down) throw new StageError('store_unavailable', 'The database is away.');
  };
  const note = (fields: object, message: string) => void backstage.logs.push(`${message} ${JSON.stringify(fields)}`);
  const log = { debug: note, info: note, warn: note, error: note };
  const revocations = { has: () => false, onRevoked: () => () => {}, catchUp: async () => {}, close: async () => {} };
  const device_grants = memoryGrants(backstage, check);
  const tokens = createSessionTokens({ config, secret: () => CLIENT_SECRET, clock, revocations, log });
  const identity: Identity = {
    provider: scriptedProvider(backstage),
    tokens,
    console_sessions: createConsoleSessions({ database: { query: async () => [] }, clock }),
    sessions: memorySessions(backstage, check),
    device_grants,
    attempts: memoryAttempts(config, backstage, check, device_grants),
    admit: (claims) => backstage.admit(claims),
    claimProblem: async () => backstage.claim_problem,
    catchUp: async () => {},
    isVerified: ({ issuer }) => issuer !== 'https://former.example.com',
  };
  const database = {
    async query<Row>(name: string): Promise<Row[]> {
      backstage.statements.push(name);
      // Nobody has a second session that the provider could be asked with.
      if (name === 'sessions_to_ask_with' || name === 'tokens_end_outside') return [];
      if (name === 'person_suspend') return [{ suspended: true } as Row];
      return [{ sessions: 1, tokens: 0 } as Row];
    },
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
export function askAt(url: () => string): Ask {
  return (method, path, { form, headers = {} } = {}) => {
    const body = form === undefined || typeof form === 'string' ? form : new URLSearchParams(form).toString();
    const type = body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' };
    const flat = Object.entries({ ...type, ...headers }).flat();
    return send(url(), { method, path, headers: flat, ...(body === undefined ? {} : { body }) });
  };
}

/** Serves the routes for the tests of a file, afresh for each test. */
export function useSignIn(
  take: (opened: { ask: Ask; backstage: Backstage; url: string }) => void,
  config = signInConfig(),
): void {
  let current: Router;
  let served: Awaited<ReturnType<typeof serve>>;
  before(async () => {
    const router = Router();
    router.use((req, res, next) => current(req, res, next));
    served = await serve(router);
  });
  after(() => served.close());
  beforeEach(() => {
    const backstage = createBackstage();
    current = createRoutes(config, backstage);
    take({ ask: askAt(() => served.url), backstage, url: served.url });
  });
}

/** The cookie a response sets, as a browser sends it back. */
export function cookieOf({ headers }: Awaited<ReturnType<Ask>>): string {
  return headers['set-cookie']?.[0]?.split(';', 1)[0] ?? '';
}

/** Headers of a form that is sent from the gateway's own page. */
export const SAME_ORIGIN = { origin: ISSUER, 'sec-fetch-site': 'same-origin' };

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/** What a program and a browser do in a sign-in, step by step. */
export function signInSteps(ask: () => Ask) {
  return {
    /** Begins a sign-in as a program does. */
    async begin(headers: Record<string, string> = {}) {
      const response = await ask()('POST', '/oauth/device_authorization', { form: {}, headers });
      assert.equal(response.status, 200, response.text);
      return response.json() as { device_code: string; user_code: string; verification_uri_complete: string };
    },
    /** Confirms a code as a person does; the cookie and the state the browser then has. */
    async leave(user_code: string) {
      const form = { user_code, action: 'approve' };
      const response = await ask()('POST', '/device', { form, headers: SAME_ORIGIN });
      assert.equal(response.status, 303, response.text);
      const location = new URL(String(response.headers.location));
      return { response, location, cookie: cookieOf(response), state: String(location.searchParams.get('state')) };
    },
    /** Comes back from the identity provider. */
    comeBack: ({ cookie, state }: { cookie: string; state: string }) =>
      ask()('GET', `/oauth/callback?code=code-1&state=${state}`, { headers: { cookie } }),
    poll: (device_code: string) =>
      ask()('POST', '/oauth/token', { form: { grant_type: DEVICE_GRANT, device_code, client_id: 'anything' } }),
  };
}

/** Asserts that a page is shown, and what it says. */
export function assertPage(response: Awaited<ReturnType<Ask>>, status: number, words: RegExp): void {
  assert.equal(response.status, status, response.text);
  assert.equal(response.headers['content-type'], 'text/html; charset=utf-8');
  const [, said = ''] = response.text.split('<main>');
  assert.match(said, words);
}
