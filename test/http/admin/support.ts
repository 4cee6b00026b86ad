/** The admin API on a server of its own, for users whose session tokens are their names. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, beforeEach } from 'node:test';
import type { Principal } from '../../../engine/api.ts';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { StageError } from '../../../engine/base/contract/errors.ts';
import type { Operation } from '../../../engine/base/contract/telemetry.ts';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Policy } from '../../../engine/base/source/spec.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import type { Changing } from '../../../engine/domain/audit/admin-changes.ts';
import { openLiveRecords } from '../../../engine/domain/audit/live-records.ts';
import { createSessions } from '../../../engine/domain/identity/sessions/sessions.ts';
import { AccessTokens } from '../../../engine/domain/identity/tokens/access-tokens.ts';
import { createModelCatalog } from '../../../engine/domain/upstreams/models.ts';
import { createUpstreamStates } from '../../../engine/domain/upstreams/states/upstream-states.ts';
import { adminRoutes } from '../../../engine/edge/http/admin.ts';
import { servePlan } from '../../../engine/edge/http/app.ts';
import type { Plan } from '../../../engine/pipeline/run/plan.ts';
import { addSession as putSession } from '../../identity/sessions/people.ts';
import { openTestStore, quietLog } from '../../support/store.ts';
import { upstream } from '../../upstreams/states/scene.ts';
import { assertDescribed } from './description.ts';

/** When the tests happen. */
export const NOW = '2026-03-10T12:00:00Z';

type Person = { readonly [Key in 'name' | 'team' | 'project' | 'token_group']?: string } & {
  readonly [Key in 'groups' | 'roles']?: readonly string[];
};

const PEOPLE: Readonly<Record<string, Person>> = {
  alice: { name: 'Alice Archer', groups: ['engineering'], team: 'search', token_group: 'coders' },
  bob: { groups: ['engineering', 'science'], token_group: 'coders' },
  nina: { groups: ['newcomers'], token_group: 'visitors' },
  olga: { groups: ['newcomers'], token_group: 'visitors' },
  fay: { groups: ['engineering'], token_group: 'coders' },
  zoe: { groups: ['newcomers'], token_group: 'visitors' },
  lone: { groups: ['lodgers', 'guests'] },
  root: { groups: ['operators'], roles: ['admin'], token_group: 'visitors' },
  chief: { groups: ['operators'], roles: ['admin'] },
};

/** A response of the admin API. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: the description defines it, and every response is checked against that.
  readonly body: any;
}

/** The tools of a test file. */
export type AdminBench = Awaited<ReturnType<typeof openBench>>;

const pricing = { input: 3, output: 15 };
const model = (id: string, family: string) => ({
  id,
  family,
  aliases: [],
  group_aliases: [],
  pricing,
  context_window: 1,
  max_output_tokens: 1,
  upstream_ids: {},
});

/** The configuration under test. */
export const config = {
  server: { public_url: 'https://gateway.example.com/', timeouts: { request_body_seconds: 10 } },
  models: [model('coder-1', 'coder'), model('writer-1', 'writer')],
  upstreams: [upstream('main'), upstream('spare')],
  routing: {
    default_upstreams: [{ upstream: 'main', order: 1, weight: 1 }],
    rules: [
      {
        name: 'both',
        upstreams: [
          { upstream: 'main', order: 1, weight: 1 },
          { upstream: 'spare', order: 2, weight: 1 },
        ],
      },
    ],
  },
  token_groups: [
    { name: 'coders', families: ['coder'], members: ['engineering'] },
    { name: 'everything', models: ['*'], members: ['science', 'operators-in-chief'] },
    { name: 'visitors', families: ['writer'] },
  ],
  auth: { session: { token_group: 'visitors' }, admin_groups: ['operators'] },
} as unknown as GatewayConfig;

function principalOf(name: string): Principal {
  const { name: full_name, groups = [], roles = [], team, project, token_group } = PEOPLE[name]!;
  const email = `${name}@example.com`;
  const token = { id: `ses_${name}`, name: 'sign-in', group: token_group };
  const named = full_name === undefined ? {} : { name: full_name };
  return { id: `user:${email}`, email, ...named, kind: 'session', groups, roles, team, project, token };
}

// biome-ignore lint/suspicious/noExplicitAny: every response is checked against the description.
type Listed = readonly any[];

/** Some fields of each entry of a list; of one field the value alone. */
export const pick = (list: Listed, ...names: readonly string[]): Listed[number][] =>
  list.map((entry) => (names.length === 1 ? entry[names[0]!] : names.map((name) => entry[name])));

/** The admin API for the tests of a file or a `describe`: there from the first of them on, `each` anew for every one. */
export function adminBench(
  used_config: GatewayConfig = config,
  { policies = [], each = false }: { readonly policies?: readonly Policy[]; readonly each?: boolean } = {},
): AdminBench {
  const bench = {} as AdminBench;
  (each ? beforeEach : before)(async () => {
    Object.assign(bench, await openBench(used_config, policies));
  });
  (each ? afterEach : after)(() => bench.close?.());
  return bench;
}

async function openBench(used_config: GatewayConfig, policies: readonly Policy[]) {
  const store = await openTestStore();
  const { database: real } = store;
  let is_away = false;
  const database: Database = {
    ...real,
    async query(name, text, values) {
      if (is_away) throw new StageError('store_unavailable', 'The database is away in this test.');
      return real.query(name, text, values);
    },
  };
  const clock = frozenClock(NOW);
  const access = new AccessTokens({ database, clock, log: quietLog, every: () => () => {} });
  const logs: string[] = [];
  const keep = (fields: object, message: string) => void logs.push(`${message} ${JSON.stringify(fields)}`);
  const log = { debug: keep, info: keep, warn: keep, error: keep };
  const operations: Operation[] = [];
  const states = createUpstreamStates({ upstreams: used_config.upstreams, clock, log, random: () => 0.5 });
  const every = (_ms: number, run: () => unknown) => {
    const timer = setInterval(run, 20);
    return () => clearInterval(timer);
  };
  const live = openLiveRecords({ database, log, every, stopping: () => false });
  const routes = adminRoutes({
    config: used_config,
    policies,
    sessions: createSessions({ database, clock }),
    database,
    clock,
    log,
    telemetry: { operation: (operation) => void operations.push(operation) },
    models: createModelCatalog(used_config),
    upstreams: states,
    live,
    async catchUp() {},
    verify(token) {
      if (token.startsWith('gw_')) return access.verify(token);
      if (PEOPLE[token] !== undefined) return principalOf(token);
      throw new StageError('credential_invalid', 'Nobody knows this session token.');
    },
  });
  // An unknown path gets the same response for every caller, and is in no audit log.
  const tokens = { verify: async () => Promise.reject(new Error('nobody')) };
  const services = { clock, tokens, audit: { write() {} } };
  const config = { ...used_config, server: { ...used_config.server, trusted_proxies: [] } };
  const plan = { config, services, pipelinesAt: () => undefined } as unknown as Plan;
  const server = createServer(servePlan(plan, log, [routes]).app);
  // On a busy machine, a property keeps this process from everything else for longer than a connection is kept.
  server.keepAliveTimeout = 60_000;
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const by: Changing = { database, clock, actor: { kind: 'command', name: 'root@host' } };
  const addSession = (user: string, id: string) =>
    putSession(
      { database },
      { user, id, at: new Date(clock.now()), groups: PEOPLE[user.split('@', 1)[0]!]?.groups ?? [] },
    );
  for (const name of Object.keys(PEOPLE)) await addSession(`${name}@example.com`, `ses_${name}`);
  return {
    ...{ url, database, rows: store.rows, clock, by, states, logs, operations, addSession, ...asking(url) },
    /** Runs something while the database is away. */
    withoutStore<T>(run: () => Promise<T>): Promise<T> {
      is_away = true;
      return run().finally(() => {
        is_away = false;
      });
    },
    async close() {
      live.close();
      server.closeAllConnections();
      server.close();
      await store.close();
    },
  };
}

const CODES: Readonly<Record<number, string>> = {
  400: 'invalid_request',
  403: 'forbidden',
  404: 'not_found',
  409: 'conflict',
  503: 'store_unavailable',
};

function asking(url: string) {
  /** Sends a raw request; every response is checked against the description. */
  const send = async (method: string, path: string, init: RequestInit = {}): Promise<Answer> => {
    const response = await fetch(url + path, { ...init, method });
    const text = await response.text();
    const is_json = response.headers.get('content-type') === 'application/json';
    const body = is_json ? (text === '' ? undefined : JSON.parse(text)) : text;
    if (method !== 'HEAD') assertDescribed(method, new URL(url + path).pathname, response.status, body);
    return { status: response.status, headers: response.headers, body };
  };
  /** Sends a request as a user of `PEOPLE`. */
  const ask = (who: string, method: string, path: string, body?: unknown) => {
    const headers = {
      authorization: `Bearer ${who}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    return send(method, path, { headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  };
  /** The body of a response that must have this status. */
  const done = async (status: number, who: string, method: string, path: string, body?: unknown) => {
    const response = await ask(who, method, path, body);
    assert.equal(response.status, status, JSON.stringify(response.body));
    return response.body;
  };
  return {
    send,
    ask,
    done,
    /** The same for `GET`, by default with 200. */
    get: (who: string, path: string, status = 200) => done(status, who, 'GET', path),
    /** Asserts that a request is rejected, with this status, the code for it, and this message. */
    async refused(status: number, message: RegExp, who: string, method: string, path: string, body?: unknown) {
      const response = await ask(who, method, path, body);
      assert.equal(response.status, status, JSON.stringify(response.body));
      assert.match(response.body.error.message, message);
      assert.equal(response.body.error.code, CODES[status]);
      return response;
    },
  };
}
