import type { GatewayConfig, ModelConfig, UpstreamConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { Drained, UpstreamState } from '../../base/contract/forwarding.ts';
import { OperationError } from '../../base/contract/operation-error.ts';
import type { EffectivePrice, Principal } from '../../base/contract/services.ts';
import { REPLICA } from '../../base/kit/process/gateway-process.ts';
import { didYouMean, listed } from '../../base/kit/text/suggest.ts';
import { isUnavailable } from '../../base/store/store-errors.ts';
import { readSessionTurns, readTraffic, type TrafficCount } from '../../domain/budget/reports/traffic.ts';
import { createIsListed, createReachable } from '../../domain/upstreams/access.ts';
import { FAILOVER_TABLE, type FailoverRow } from '../../domain/upstreams/failover-table.ts';
import { noModelsBecause } from '../../domain/upstreams/models.ts';
import {
  drainUpstream,
  incidentsElsewhere,
  type KeptIncident,
  listDrained,
  listIncidents,
  resumeUpstream,
} from '../../domain/upstreams/states/shared-states.ts';
import type { AdminOptions, OperationContext, PageQuery } from './calls.ts';
import { notInList, pageOf, showName } from './description.ts';

const PICO_TO_USD_PER_MILLION = 1e6;

/** Models that the caller may use. */
export function modelOperations({ config, models, clock }: AdminOptions) {
  // Created on the first request; most configurations never need it.
  let cached:
    | { isListed: ReturnType<typeof createIsListed>; reachable: ReturnType<typeof createReachable> }
    | undefined;
  const rules = () => {
    cached ??= { isListed: createIsListed(config, models), reachable: createReachable(config) };
    return cached;
  };
  const pricesOf = (model: ModelConfig, known: ReadonlyMap<string, unknown>) =>
    rules()
      .reachable(model, known)
      .filter((upstream) => models.isServedAt(model, upstream))
      .flatMap((upstream) => {
        const price = priceAt(model, upstream);
        return price === undefined ? [] : [{ upstream, usd_per_million_tokens: ratesOf(price) }];
      });
  function priceAt(model: ModelConfig, upstream: string): EffectivePrice | undefined {
    try {
      return models.price(model, { upstream, at: clock.now() });
    } catch {
      // No price at this upstream.
      return undefined;
    }
  }
  return {
    async listModels({ caller }: OperationContext, _nothing: object) {
      const { principal } = caller;
      const { groups, email, token } = principal;
      const asking = { token_group: token.group, groups, email };
      const known = factsOf(principal);
      const listed = models.all.filter(rules().isListed(asking, known));
      const refusals = models.all.map((model) => models.refusal(asking, model));
      return {
        models: listed.map((model) => ({
          id: model.id,
          display_name: model.display_name ?? model.id,
          context_window: model.assumed.includes('context_window') ? null : model.context_window,
          max_output_tokens: model.assumed.includes('max_output_tokens') ? null : model.max_output_tokens,
          prices: pricesOf(model, known),
        })),
        no_models_because: listed.length > 0 ? null : why(refusals),
      };

      function why(refused: typeof refusals): string {
        const by_rules = refused.length > 0 && refused.some((refusal) => refusal === undefined);
        return by_rules
          ? 'access.rules in gateway.yaml reject every model for you; an administrator can change them'
          : noModelsBecause(refused, groups, config);
      }
    },
  };
}

function factsOf({ id, kind, email, groups, team, project, roles, token }: Principal): ReadonlyMap<string, unknown> {
  return new Map<string, unknown>([
    ['principal.id', id],
    ['principal.kind', kind],
    ['principal.email', email],
    ['principal.groups', groups],
    ['principal.team', team],
    ['principal.project', project],
    ['principal.roles', roles],
    ['principal.token.id', token.id],
    ['principal.token.name', token.name],
    ['principal.token.group', token.group],
  ]);
}

function ratesOf({ pico }: EffectivePrice) {
  const usd = (rate: number) => rate / PICO_TO_USD_PER_MILLION;
  return {
    input: usd(pico.input),
    output: usd(pico.output),
    cache_read: usd(pico.cache_read),
    cache_write_5m: usd(pico.cache_write_5m),
    cache_write_1h: usd(pico.cache_write_1h),
  };
}

const MINUTE_MS = 60_000;
/** Traffic windows, and their number of buckets: of five minutes, of an hour. */
const WINDOWS = {
  hour: { ms: 60 * MINUTE_MS, parts: 12 },
  day: { ms: 24 * 60 * MINUTE_MS, parts: 24 },
} as const;

/** Traffic and incidents of upstreams, for administrators. */
export function upstreamTrafficOperations({ database, clock }: AdminOptions) {
  return {
    async getUpstreamTraffic(_: OperationContext, { window = 'hour' }: { readonly window?: keyof typeof WINDOWS }) {
      const { ms, parts } = WINDOWS[window];
      const part_ms = ms / parts;
      // The current bucket is the last one, so that repeated requests have the same buckets.
      const end = (Math.floor(clock.now() / part_ms) + 1) * part_ms;
      const span = { since: new Date(end - ms), until: new Date(end) };
      const [{ counts, times }, turns] = await Promise.all([
        readTraffic(database, span, parts),
        readSessionTurns(database, span),
      ]);
      const all = sum(counts);
      const timesOf = (upstream: string, model: string | null) => {
        const found = times.find((each) => each.upstream === upstream && each.upstream_model === model);
        return { p50_ms: found?.p50_ms ?? null, p95_ms: found?.p95_ms ?? null };
      };
      const by_upstream = Map.groupBy(counts, ({ upstream }) => upstream);
      const upstreams = [...by_upstream].map(([upstream, of_it]) => {
        const models = [...Map.groupBy(of_it, ({ upstream_model }) => upstream_model)].map(
          ([upstream_model, of_model]) => ({
            upstream_model,
            ...describe(of_model),
            ...timesOf(upstream, upstream_model),
          }),
        );
        const session = turns.find((each) => each.upstream === upstream);
        return {
          upstream,
          ...describe(of_it),
          ...timesOf(upstream, null),
          share: sum(of_it) / all,
          turns: session?.turns ?? 0,
          turns_stayed: session?.stayed ?? 0,
          parts: inParts(of_it, parts),
          models: models.toSorted(mostFirst),
        };
      });
      return { window, ...span, part_seconds: part_ms / 1000, attempts: all, upstreams: upstreams.toSorted(mostFirst) };
    },

    async listUpstreamIncidents(_: OperationContext, { upstream, after, limit }: PageQuery & { upstream?: string }) {
      const before = after === undefined ? undefined : Number(after);
      if (before !== undefined && !Number.isSafeInteger(before)) throw notInList();
      const only = {
        limit: limit + 1,
        ...(upstream !== undefined && { upstream }),
        ...(before !== undefined && { before }),
      };
      const page = pageOf(await listIncidents(database, only), limit);
      return { incidents: page.entries, next: page.next === null ? null : String(page.next) };
    },
  };
}

function mostFirst(a: { readonly attempts: number }, b: { readonly attempts: number }): number {
  return b.attempts - a.attempts;
}

function sum(counts: readonly TrafficCount[]): number {
  return counts.reduce((all, { attempts }) => all + attempts, 0);
}

type Kind = 'served' | 'limited' | 'failed' | 'other';

/** Classifies an outcome: `other` is no failure of the upstream. */
function kindOf(outcome: string): Kind {
  const effect = rowOf(outcome)?.effect;
  if (outcome === 'answered') return 'served';
  if (effect === 'limited') return 'limited';
  return effect === 'success' || effect === 'neutral' ? 'other' : 'failed';
}

function rowOf(outcome: string): FailoverRow | undefined {
  return Object.hasOwn(FAILOVER_TABLE, outcome) ? FAILOVER_TABLE[outcome as keyof typeof FAILOVER_TABLE] : undefined;
}

function describe(counts: readonly TrafficCount[]) {
  const of_kind = (kind: Kind) => sum(counts.filter(({ outcome }) => kindOf(outcome) === kind));
  const outcomes = [...Map.groupBy(counts, ({ outcome }) => outcome)]
    .filter(([outcome]) => outcome !== 'answered')
    .map(([outcome, of_it]) => ({ outcome, means: rowOf(outcome)?.when ?? outcome, attempts: sum(of_it) }));
  return {
    attempts: sum(counts),
    served: of_kind('served'),
    limited: of_kind('limited'),
    failed: of_kind('failed'),
    outcomes: outcomes.toSorted((a, b) => mostFirst(a, b) || (a.outcome < b.outcome ? -1 : 1)),
  };
}

function inParts(counts: readonly TrafficCount[], parts: number) {
  const by_part = Map.groupBy(counts, ({ part }) => part);
  return Array.from({ length: parts }, (_, part) => {
    const { attempts, limited, failed } = describe(by_part.get(part) ?? []);
    return { attempts, limited, failed };
  });
}

/** State of an upstream or a model; `unknown` outside a running gateway. */
type State = UpstreamState['state'] | 'unknown';

/** An upstream in the admin API. */
export type Shown = ReturnType<typeof showUpstream>;

/** A route of an upstream; `is_last`: all other upstreams of the route are drained. */
export interface Route {
  readonly name: string;
  readonly order: number;
  readonly weight: number;
  readonly is_last: boolean;
}

type Change = { readonly name: string; readonly reason?: string };

/** States of upstreams, drain and resume. For administrators. */
export function upstreamOperations({ config, database, clock, upstreams: states }: AdminOptions) {
  /** Drained upstreams; during an outage of the database, those that this replica read last. */
  async function drainedNow(): Promise<ReadonlyMap<string, Drained>> {
    try {
      return await listDrained(database);
    } catch (error) {
      if (states === undefined || !(error instanceof StageError)) throw error;
      return new Map(states.list().flatMap(({ upstream, drained }) => (drained ? [[upstream, drained]] : [])));
    }
  }

  /** Incidents of other replicas; empty during an outage of the database or outside a running gateway. */
  async function elsewhereNow(): Promise<readonly KeptIncident[]> {
    if (states === undefined) return [];
    try {
      return await incidentsElsewhere(database, new Date(clock.now()));
    } catch (error) {
      if (isUnavailable(error)) return [];
      throw error;
    }
  }

  async function show(): Promise<Shown[]> {
    const [drained, elsewhere] = await Promise.all([drainedNow(), elsewhereNow()]);
    const known = states?.list() ?? [];
    const names = config.upstreams.map(({ name }) => name);
    const gone = [...drained.keys()].filter((name) => !names.includes(name));
    return [...names, ...gone].map((name) => {
      const breaker = config.upstreams.find((upstream) => upstream.name === name)?.breaker.mode ?? null;
      const of = known.filter(({ upstream }) => upstream === name);
      return showUpstream(name, {
        breaker,
        known: of,
        drained: drained.get(name),
        routes: routesOf(name, drained),
        elsewhere: elsewhere.filter(({ upstream }) => upstream === name),
      });
    });
  }

  function routesOf(name: string, drained: ReadonlyMap<string, Drained>): Route[] {
    return allRoutes(config).flatMap((route) => {
      const entry = route.upstreams.find(({ upstream }) => upstream === name);
      if (entry === undefined) return [];
      const is_last = route.upstreams.every(({ upstream }) => upstream === name || drained.has(upstream));
      return [{ name: route.name, order: entry.order, weight: entry.weight, is_last }];
    });
  }

  function routesWithoutUpstream(upstreams: readonly Shown[]): string[] {
    const drained = new Set(upstreams.filter((each) => each.drained !== null).map(({ name }) => name));
    return allRoutes(config)
      .filter((route) => route.upstreams.every(({ upstream }) => drained.has(upstream)))
      .map(({ name }) => name);
  }

  return {
    async listUpstreams(_: OperationContext, _nothing: object) {
      return { replica: states === undefined ? null : REPLICA, upstreams: await show() };
    },

    async drainUpstream({ by }: OperationContext, { name, reason }: Change) {
      const names = config.upstreams.map((upstream) => upstream.name);
      if (!names.includes(name)) throw unknown(name, names);
      await drainUpstream(by, name, reason);
      const all = await show();
      const upstream = all.find((each) => each.name === name)!;
      return { upstream, routes_without_upstream: routesWithoutUpstream(all) };
    },

    async resumeUpstream({ by }: OperationContext, { name, reason }: Change) {
      const names = config.upstreams.map((upstream) => upstream.name);
      if (!names.includes(name) && !(await listDrained(database)).has(name)) throw unknown(name, names);
      const before = await resumeUpstream(by, name, reason);
      const all = await show();
      const gone = showUpstream(name, { breaker: null, known: [], drained: undefined, routes: [], elsewhere: [] });
      return {
        upstream: all.find((each) => each.name === name) ?? gone,
        was_drained: showDrained(before),
      };
    },
  };
}

function showUpstream(
  name: string,
  {
    breaker,
    known,
    drained,
    routes,
    elsewhere,
  }: {
    readonly breaker: UpstreamConfig['breaker']['mode'] | null;
    readonly known: readonly UpstreamState[];
    readonly drained: Drained | undefined;
    readonly routes: readonly Route[];
    readonly elsewhere: readonly KeptIncident[];
  },
) {
  const whole = known.find(({ upstream_model }) => upstream_model === undefined);
  const known_state = whole?.state === 'drained' ? 'closed' : whole?.state;
  return {
    name,
    configured: breaker !== null,
    ...showState({ ...whole, state: drained === undefined ? (known_state ?? 'unknown') : 'drained' }),
    in_flight: whole?.active ?? null,
    breaker,
    drained: drained === undefined ? null : showDrained(drained),
    models: known.flatMap(({ upstream_model, ...state }) => {
      return upstream_model === undefined ? [] : [{ upstream_model, ...showState(state) }];
    }),
    routes,
    elsewhere: elsewhere.map(({ replica, kind, upstream_model, until, last }) => {
      return { replica, kind, upstream_model, until, last };
    }),
  };
}

function allRoutes({ routing }: GatewayConfig) {
  return [...routing.rules, { name: 'default', upstreams: routing.default_upstreams }];
}

function showState({ state, until, last }: { readonly state: State; readonly until?: number; readonly last?: string }) {
  return { state, until: until === undefined ? null : new Date(until), last_failure: last ?? null };
}

function showDrained({ by, at, reason }: Drained) {
  return { by, at: new Date(at), reason: reason ?? null };
}

function unknown(name: string, names: readonly string[]): OperationError {
  const hint = didYouMean(name, names, `gateway.yaml has ${listed(names)}`);
  return new OperationError(`there is no upstream ${showName(name)}: ${hint}`, 'missing');
}
