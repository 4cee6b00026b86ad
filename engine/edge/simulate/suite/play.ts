/**
 * Runs requests through the real pipelines of a configuration without anything real around them: stopped clock, ledger
 * and tokens in memory, scripted upstream.
 * @module
 */
import { type GatewayConfig, SPEND_SCOPES, type SpendScope } from '../../../base/contract/config.ts';
import type { ChargedAttempt } from '../../../base/contract/money.ts';
import { NO_TELEMETRY } from '../../../base/contract/telemetry.ts';
import { frozenClock } from '../../../base/kit/clock.ts';
import { isJson } from '../../../base/kit/media-type.ts';
import { usdToNano } from '../../../base/kit/money.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import type { Balance, Counted } from '../../../domain/budget/limits/room.ts';
import { counterKey } from '../../../domain/budget/limits/spend-limits.ts';
import { rolesOf, tokenGroupOf } from '../../../domain/identity/deprovisioning/deprovision.ts';
import { generateToken } from '../../../domain/identity/tokens/token-format.ts';
import { type Caller, DEFAULT_START, SOMEBODY, type Spent } from '../../../pipeline/load/tests/test-case.ts';
import { buildPlan } from '../../../pipeline/run/plan.ts';
import { servePlan } from '../../http/app.ts';
import { GatewayServer } from '../../http/server.ts';
import { clientRequest, credentialHeaders, proxyHeaders, send } from '../client.ts';
import type { LedgerRow } from '../memory/memory-ledger.ts';
import { type MemoryTokens, openMemoryServices, SECRET_MARK } from '../memory/memory-services.ts';
import { createConfinement } from '../no-network.ts';
import { openUpstream, type Received, type ScriptedUpstream } from '../upstream.ts';
import { openScripts, type UpstreamScripts } from '../upstream-script.ts';
import { passTime } from '../virtual-time.ts';
import type { Call, Played, Playground, PlayOptions, PlayWish } from './played.ts';
import { createWatch } from './watch.ts';

/** An upstream that answers as no test expects, until a script is set. */
export function openSilentUpstream(): Promise<ScriptedUpstream> {
  return openUpstream(({ res }) => void res.writeHead(404).end());
}

/** The configuration with nothing in it that leads out of the process: the upstream `i` is the path `/i` behind the door `i`. */
function confine(loaded: Loaded, doors: readonly number[], behind_proxy: boolean): Loaded & { config: GatewayConfig } {
  const { config } = loaded;
  if (config === undefined) throw new Error('a configuration with errors cannot be played with');
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

function addsUp({ attempts, cost_nano_usd }: LedgerRow): boolean {
  const costs = (attempts as readonly ChargedAttempt[] | null)?.map((attempt) => attempt.cost_nano_usd);
  return costs === undefined || costs.reduce((sum, cost) => sum + cost, 0) === cost_nano_usd;
}

/** No credential gets out, a refusal is JSON, no money stays reserved, all of it is accounted for. */
function brokenPromises(played: Omit<Played, 'broken_promises'>, token: string, reserved_nano_usd: number): string[] {
  const { response, calls, ledger, audit, log } = played;
  const told = `${JSON.stringify(response?.headers)}${response?.body}${JSON.stringify([audit, log])}`;
  const upward = JSON.stringify(calls.map(({ raw_headers, url }) => [raw_headers, url]));
  const own_answer = response !== undefined && calls.length === 0 && response.body.length > 0;
  const is_json = isJson(response?.headers['content-type']);
  return [
    ...(told.includes(SECRET_MARK) ? ['a secret of the configuration got out'] : []),
    ...(told.includes(token) ? ["the caller's token got out"] : []),
    ...(upward.includes(token) ? ["the caller's token went upstream"] : []),
    ...(own_answer && !is_json ? ['the gateway answered with something that is not JSON'] : []),
    ...(reserved_nano_usd > 0 ? ['money stays reserved after the request'] : []),
    ...(ledger.every(addsUp) ? [] : ['the attempts of the ledger row do not come to its cost']),
  ];
}

/** Opens a gateway to play with, in front of an upstream. Throws when a stage can't be created. */
async function openOn(upstream: ScriptedUpstream, options: PlayOptions): Promise<Playground> {
  const { at = DEFAULT_START, database = 'there', behind_proxy = false } = options;
  const upstreams = options.loaded.config?.upstreams ?? [];
  const doors = await upstream.doors(upstreams.length);
  const loaded = confine(options.loaded, doors, behind_proxy);
  const { config } = loaded;
  const clock = frozenClock(at);
  const isAway = () => database === 'away';
  const { services, ledger, tokens, states, recorded } = openMemoryServices({ loaded, upstreams, clock, isAway });
  /** What the upstreams do with the present request. */
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

  /** Sends one request and waits until everything about it is over. */
  async function playOne(wish: PlayWish, token: string): Promise<Omit<Played, 'broken_promises'>> {
    const { request, caller = {}, path } = wish;
    const marks = [upstream.requests.length, ledger.attempts.length, ledger.rows.length] as const;
    for (const list of Object.values(recorded)) list.length = 0;
    let arrivals = 0;
    watch.begin();
    const names = config.upstreams.map(({ name }) => name);
    const played_by = openScripts(wish, names, clock);
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
    // Resolves when no request is in the plan.
    const over = answered.then(plan.idle);
    const ended = await passTime(over, clock, {
      activity: () => watch.activity + arrivals + upstream.requests.length + played_by.activity(),
      // Who leaves does so by himself.
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
      is_unscripted: wish.upstream === undefined && wish.upstreams === undefined,
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
    config,
    now: () => clock.now(),
    drain(names) {
      const drained = { by: 'the test', at: clock.now() };
      states.setDrained(new Map(names.map((name) => [name, drained])));
    },
    advance: (milliseconds) => clock.advance(milliseconds),
    spend: (spent, caller) => ledger.put(balanceOf(spent, caller, config)),
    grant(granted, caller) {
      const { spent, reserved, ...name } = balanceOf(granted, caller, config);
      ledger.grant(name, spent || reserved, Date.parse(granted.until));
    },
    count: (counted) => ledger.count(counted),
    async play(wish) {
      const token = tokenFor(wish.caller ?? {}, tokens, config, clock.now());
      const held_before = ledger.reserved();
      const played = await playOne(wish, token);
      return { ...played, broken_promises: brokenPromises(played, token, ledger.reserved() - held_before) };
    },
    async close() {
      await server.drain();
      // A stage may wait for its time limit.
      await passTime(plan.close(), clock, { activity: () => 0, waits: () => true });
    },
  };
}

/** Opens a gateway to play with. Throws when a stage can't be created. */
export async function openPlayground(options: PlayOptions): Promise<Playground> {
  if (options.upstream !== undefined) return openOn(options.upstream, options);
  const upstream = await openSilentUpstream();
  try {
    const playground = await openOn(upstream, options);
    return { ...playground, close: () => playground.close().finally(() => upstream.close()) };
  } catch (error) {
    await upstream.close();
    throw error;
  }
}

/** One request, played from opening to closing; for explanations. */
export async function play(
  options: PlayOptions & { readonly counted?: Counted; readonly drained?: readonly string[] },
  wish: PlayWish,
): Promise<Played> {
  const playground = await openPlayground(options);
  try {
    if (options.counted !== undefined) playground.count(options.counted);
    if (options.drained !== undefined) playground.drain(options.drained);
    return await playground.play(wish);
  } finally {
    await playground.close();
  }
}

/** Token group of a caller; a signed-in person may have none. */
function groupFor({ kind, group, groups = [] }: Caller, config: GatewayConfig): string | undefined {
  if (kind === 'session') return group ?? tokenGroupOf(config, groups);
  return group ?? config.token_groups[0]?.name ?? 'all';
}

/** Id of the token or session of a caller, the same in all its requests. */
function tokenIdOf(caller: Caller, config: GatewayConfig): string {
  const { kind = 'access_token', user = SOMEBODY, token_name } = caller;
  const parts = [kind === 'session' ? 'ses' : 'tok', groupFor(caller, config) ?? 'none', user.toLowerCase()];
  return [...parts, ...(token_name === undefined ? [] : [token_name])].join('_');
}

function tokenFor(caller: Caller, tokens: MemoryTokens, config: GatewayConfig, now: number): string {
  const { credential, kind, user = SOMEBODY, token_name: name, groups = [], team, project } = caller;
  // Well formed, and nobody's.
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
    user: (caller.user ?? SOMEBODY).toLowerCase(),
    team: caller.team,
    project: caller.project,
    token: tokenIdOf(caller, config),
  };
  const given = new Map([scope].flat().map((each, i) => [each, [key ?? []].flat()[i] ?? own[each]]));
  const scopes = SPEND_SCOPES.filter((each) => given.has(each));
  const keys = scopes.map((each) => {
    const name = given.get(each);
    if (name === undefined) throw new Error(`the caller has no ${each} whose budget could be spent`);
    return name;
  });
  const name = { scope: scopes.join('+'), key: counterKey(keys), window };
  if (usd !== undefined) return { ...name, unit: 'nano_usd', spent: usdToNano(usd), reserved: usdToNano(reserved_usd) };
  const unit = tokens === undefined ? 'requests' : 'tokens';
  const count = tokens ?? requests ?? 0;
  return { ...name, unit, ...(window === 'open' ? { spent: 0, reserved: count } : { spent: count, reserved: 0 }) };
}
