/** Simulates requests through real pipelines: stopped clock, in-memory ledger and tokens, scripted upstreams. @module */
import { type GatewayConfig, SPEND_SCOPES, type SpendScope } from '../../../base/contract/config.ts';
import type { ChargedAttempt } from '../../../base/contract/money.ts';
import type { AttemptRecord, AuditRecord, FactView } from '../../../base/contract/services.ts';
import { NO_TELEMETRY } from '../../../base/contract/telemetry.ts';
import { frozenClock } from '../../../base/kit/clock.ts';
import { isJson } from '../../../base/kit/media-type.ts';
import { usdToNano } from '../../../base/kit/money.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import type { Balance, Counted } from '../../../domain/budget/limits/headroom.ts';
import { counterKey } from '../../../domain/budget/limits/spend-limits.ts';
import { rolesOf, tokenGroupOf } from '../../../domain/identity/deprovisioning/deprovision.ts';
import { generateToken } from '../../../domain/identity/tokens/token-format.ts';
import {
  type Caller,
  DEFAULT_CALLER,
  DEFAULT_START,
  type Granted,
  type Spent,
  type Step,
} from '../../../pipeline/load/tests/test-case.ts';
import { buildPlan } from '../../../pipeline/run/plan.ts';
import { servePlan } from '../../http/app.ts';
import { GatewayServer } from '../../http/server.ts';
import { type ClientResponse, clientRequest, credentialHeaders, proxyHeaders, send } from '../client.ts';
import type { Attempt, LedgerRow } from '../memory/memory-ledger.ts';
import { type MemoryTokens, openMemoryServices, SECRET_MARK } from '../memory/memory-services.ts';
import { createConfinement } from '../no-network.ts';
import { openUpstream, type Received, type ScriptedUpstream } from '../upstream.ts';
import { openScripts, type UpstreamScripts } from '../upstream-script.ts';
import { passTime } from '../virtual-time.ts';
import { createWatch, type RequestTrace } from './watch.ts';

/** A request as an upstream received it. */
export interface Call extends Received {
  readonly upstream: string;
  readonly url: string;
}

export interface LogRecord {
  readonly level: 'warn' | 'error';
  readonly message: string;
  readonly reason: string | undefined;
}

/** The record of one simulated request. */
export interface Played {
  /** `undefined` if the client disconnected before the response head. */
  readonly response: ClientResponse | undefined;
  readonly sent_body: Buffer;
  readonly calls: readonly Call[];
  /** The whole response body of the last upstream. */
  readonly upstream_body: Buffer;
  /** Requested upstreams without a script in the test. */
  readonly unscripted: readonly string[];
  /** Whether the test scripts no upstream: all respond with an empty body. */
  readonly is_unscripted: boolean;
  readonly trace: RequestTrace | undefined;
  /** All facts at the end; empty if no pipeline serves the request. */
  readonly facts: FactView;
  readonly attempts: readonly AttemptRecord[];
  /** Attempted reservations, with the state of every limit at that moment. */
  readonly reservations: readonly Attempt[];
  readonly ledger: readonly LedgerRow[];
  readonly audit: readonly AuditRecord[];
  readonly log: readonly LogRecord[];
  /** Connections of stages that were blocked. */
  readonly refused: readonly { readonly destination: string; readonly stage: string | undefined }[];
  readonly ended: boolean;
  readonly broken_promises: readonly string[];
}

/** `path`: the default path of requests. */
type PlayInput = Pick<Step, 'request' | 'upstream' | 'upstreams'> & { readonly path: string; readonly caller?: Caller };

interface PlayOptions {
  readonly loaded: Loaded;
  /** Start of time; a date with a time zone, or milliseconds since the epoch. */
  readonly at?: string | number;
  /** `away`: the database is unavailable. */
  readonly database?: 'there' | 'away';
  /** Whether a trusted proxy reports the address or region of callers. */
  readonly behind_proxy?: boolean;
  readonly upstream: ScriptedUpstream;
}

/** An upstream that responds 404 until a script is set. */
export function openSilentUpstream(): Promise<ScriptedUpstream> {
  return openUpstream(({ res }) => void res.writeHead(404).end());
}

/** Rewrites a configuration to local upstreams: upstream `i` is the path `/i` at port `doors[i]`. */
function confine(loaded: Loaded, doors: readonly number[], behind_proxy: boolean): Loaded & { config: GatewayConfig } {
  const { config } = loaded;
  if (config === undefined) throw new Error('cannot simulate a configuration with errors');
  const { tls: _, ...server } = config.server;
  const upstreams = config.upstreams.map((upstream, i) => {
    const path = new URL(upstream.base_url).pathname.replace(/\/$/, '');
    const { proxy: _, ...reached } = upstream;
    return { ...reached, base_url: `http://127.0.0.1:${doors[i]}/${i}${path}` };
  });
  const trusted_proxies = behind_proxy ? [...server.trusted_proxies, '127.0.0.1'] : server.trusted_proxies;
  return { ...loaded, config: { ...config, server: { ...server, listen: '127.0.0.1:0', trusted_proxies }, upstreams } };
}

function callOf(received: Received, config: GatewayConfig): Call {
  const [, index, url = received.url] = /^\/(\d+)(.*)$/.exec(received.url) ?? [];
  const { method, raw_headers, headers, body, complete, sha256, cancelled } = received;
  const upstream = config.upstreams[Number(index)]?.name ?? '';
  return { method, raw_headers, headers, body, complete, sha256, cancelled, upstream, url };
}

function attemptsMatchCost({ attempts, cost_nano_usd }: LedgerRow): boolean {
  const costs = (attempts as readonly ChargedAttempt[] | null)?.map((attempt) => attempt.cost_nano_usd);
  return costs === undefined || costs.reduce((sum, cost) => sum + cost, 0) === cost_nano_usd;
}

/** Violated invariants: no leaked credential, JSON errors, no leftover reservation, consistent costs. */
function brokenInvariants(played: Omit<Played, 'broken_promises'>, token: string, reserved_nano_usd: number): string[] {
  const { response, calls, ledger, audit, log } = played;
  const visible = `${JSON.stringify(response?.headers)}${response?.body}${JSON.stringify([audit, log])}`;
  const upward = JSON.stringify(calls.map(({ raw_headers, url }) => [raw_headers, url]));
  const own_answer = response !== undefined && calls.length === 0 && response.body.length > 0;
  const is_json = isJson(response?.headers['content-type']);
  return [
    ...(visible.includes(SECRET_MARK) ? ['a secret of the configuration leaked'] : []),
    ...(visible.includes(token) ? ["the caller's token leaked"] : []),
    ...(upward.includes(token) ? ["the caller's token was sent upstream"] : []),
    ...(own_answer && !is_json ? ['the response of the gateway is not JSON'] : []),
    ...(reserved_nano_usd > 0 ? ['money stays reserved after the request'] : []),
    ...(ledger.every(attemptsMatchCost) ? [] : ['the attempts of the ledger row do not add up to its cost']),
  ];
}

/** Opens a simulated gateway. Requests come one after another and share budgets. Throws if a stage cannot be created. */
export async function openPlayground(options: PlayOptions) {
  const { at = DEFAULT_START, database = 'there', behind_proxy = false, upstream } = options;
  const upstreams = options.loaded.config?.upstreams ?? [];
  const doors = await upstream.doors(upstreams.length);
  const loaded = confine(options.loaded, doors, behind_proxy);
  const { config } = loaded;
  const clock = frozenClock(at);
  const isAway = () => database === 'away';
  const { services, ledger, tokens, states, recorded } = openMemoryServices({ loaded, upstreams, clock, isAway });
  let scripts: UpstreamScripts | undefined;
  const confinement = createConfinement({
    onRefused: (destination, stage) => recorded.refused.push({ destination, stage }),
    isClosed: (port) => scripts?.isClosed(doors.indexOf(port)) ?? false,
  });
  for (const port of doors) confinement.allow(port);
  const watch = createWatch(services.facts, confinement);
  const plan = buildPlan(loaded, services, watch.observer);
  const { log } = services;
  const server = new GatewayServer({ plan: servePlan(plan, log), log, clock, telemetry: NO_TELEMETRY });
  const { host, port } = await server.listen();

  async function playOne(input: PlayInput, token: string): Promise<Omit<Played, 'broken_promises'>> {
    const { request, caller = {}, path } = input;
    const marks = [upstream.requests.length, ledger.attempts.length, ledger.rows.length] as const;
    for (const list of Object.values(recorded)) list.length = 0;
    let arrivals = 0;
    watch.begin();
    const names = config.upstreams.map(({ name }) => name);
    const played_by = openScripts(input, names, clock);
    scripts = played_by;
    upstream.script = (exchange) => played_by.answer(exchange);
    const forwarded_for = request.headers?.['x-forwarded-for'];
    const proxy = behind_proxy ? proxyHeaders(caller, forwarded_for, config.server.region_header) : [];
    const wanted = clientRequest(request, path, [...credentialHeaders(caller.credential, token), ...proxy]);
    const answered = send(`http://${host}:${port}`, wanted, {
      unanswered: played_by.unanswered,
      answerBytes: () => played_by.body().length,
      onArrival: () => arrivals++,
    });
    // Resolves when the plan has no running request.
    const over = answered.then(plan.idle);
    const ended = await passTime(over, clock, {
      activity: () => watch.activity + arrivals + upstream.requests.length + played_by.activity(),
      // A client that disconnects needs no time to pass.
      waits: () => played_by.waits() && request.leaves === undefined,
    });
    const trace = watch.trace();
    if (!ended) {
      watch.giveUp();
      await over;
    }
    return {
      response: await answered,
      sent_body: wanted.body,
      calls: upstream.requests.slice(marks[0]).map((received) => callOf(received, config)),
      upstream_body: played_by.body(),
      unscripted: played_by.unscripted,
      is_unscripted: input.upstream === undefined && input.upstreams === undefined,
      trace,
      facts: trace?.facts ?? {},
      attempts: trace?.attempts ?? [],
      reservations: ledger.attempts.slice(marks[1]),
      ledger: ledger.rows.slice(marks[2]),
      ...{ audit: [...recorded.audit], log: [...recorded.log], refused: [...recorded.refused] },
      ended,
    };
  }

  return {
    now: () => clock.now(),
    /** Drains these upstreams and no others. */
    drain(names: readonly string[]) {
      const drained = { by: 'the test', at: clock.now() };
      states.setDrained(new Map(names.map((name) => [name, drained])));
    },
    advance: (milliseconds: number) => clock.advance(milliseconds),
    /** Adds spending to a counter; by default of the caller's own user, team, project or token. */
    spend: (spent: Spent, caller: Caller) => ledger.put(balanceOf(spent, caller, config)),
    /** Raises a limit temporarily; keys as for `spend`. */
    grant(granted: Granted, caller: Caller) {
      const { spent, reserved, ...name } = balanceOf(granted, caller, config);
      ledger.grant(name, spent || reserved, Date.parse(granted.until));
    },
    count: (counted: Counted) => ledger.count(counted),
    async play(input: PlayInput): Promise<Played> {
      const token = tokenFor(input.caller ?? {}, tokens, config, clock.now());
      const reserved_before = ledger.reserved();
      const played = await playOne(input, token);
      return { ...played, broken_promises: brokenInvariants(played, token, ledger.reserved() - reserved_before) };
    },
    async close() {
      await server.drain();
      // A stage may wait for its timeout.
      await passTime(plan.close(), clock, { activity: () => 0, waits: () => true });
    },
  };
}

/** Simulates one request in a new gateway; for `explain`. */
export async function play(
  options: Omit<PlayOptions, 'upstream'> & { readonly counted?: Counted; readonly drained?: readonly string[] },
  input: PlayInput,
): Promise<Played> {
  const upstream = await openSilentUpstream();
  try {
    const playground = await openPlayground({ ...options, upstream });
    try {
      if (options.counted !== undefined) playground.count(options.counted);
      if (options.drained !== undefined) playground.drain(options.drained);
      return await playground.play(input);
    } finally {
      await playground.close();
    }
  } finally {
    await upstream.close();
  }
}

function groupFor({ kind, group, groups = [] }: Caller, config: GatewayConfig): string | undefined {
  if (kind === 'session') return group ?? tokenGroupOf(config, groups);
  return group ?? config.token_groups[0]?.name ?? 'all';
}

/** Token or session id of a caller, stable across requests. */
function tokenIdOf(caller: Caller, config: GatewayConfig): string {
  const { kind = 'access_token', user = DEFAULT_CALLER, token_name } = caller;
  const parts = [kind === 'session' ? 'ses' : 'tok', groupFor(caller, config) ?? 'none', user.toLowerCase()];
  return [...parts, ...(token_name === undefined ? [] : [token_name])].join('_');
}

function tokenFor(caller: Caller, tokens: MemoryTokens, config: GatewayConfig, now: number): string {
  const { credential, kind, user = DEFAULT_CALLER, token_name: name, groups = [], team, project } = caller;
  // Well-formed, but unknown.
  if (credential === 'wrong') return generateToken();
  return (kind === 'session' ? tokens.signIn : tokens.add)({
    ...{ id: tokenIdOf(caller, config), user, name, group: groupFor(caller, config), groups, team, project },
    roles: rolesOf(config.auth ?? {}, groups),
    ...(credential === 'expired' && { expires_at: now - 1000 }),
    ...(credential === 'revoked' && { revoked_at: now - 1000 }),
  });
}

function balanceOf(spent: Spent, caller: Caller, config: GatewayConfig): Balance {
  const { scope, key, window, usd, reserved_usd = 0, requests, tokens } = spent;
  const own: Partial<Record<SpendScope, string | undefined>> = {
    user: (caller.user ?? DEFAULT_CALLER).toLowerCase(),
    team: caller.team,
    project: caller.project,
    token: tokenIdOf(caller, config),
  };
  const key_by_scope = new Map([scope].flat().map((each, i) => [each, [key ?? []].flat()[i] ?? own[each]]));
  const scopes = SPEND_SCOPES.filter((each) => key_by_scope.has(each));
  const keys = scopes.map((each) => {
    const name = key_by_scope.get(each);
    if (name === undefined) throw new Error(`the caller has no ${each} whose budget could be spent`);
    return name;
  });
  const name = { scope: scopes.join('+'), key: counterKey(keys), window };
  if (usd !== undefined) return { ...name, unit: 'nano_usd', spent: usdToNano(usd), reserved: usdToNano(reserved_usd) };
  const unit = tokens === undefined ? 'requests' : 'tokens';
  const count = tokens ?? requests ?? 0;
  return { ...name, unit, ...(window === 'open' ? { spent: 0, reserved: count } : { spent: count, reserved: 0 }) };
}
