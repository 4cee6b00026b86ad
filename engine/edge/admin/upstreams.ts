import type { ModelConfig } from '../../base/contract/config.ts';
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
import type { AdminOptions, OperationContext } from './calls.ts';
import { showName } from './description.ts';
import { notInList, type PageQuery, pageOf } from './lists.ts';

const PICO_TO_USD_PER_MILLION = 1e6;

/** Models that the caller may use. */
export function modelOperations({ config, models, clock }: AdminOptions) {
  function priceAt(model: ModelConfig, upstream: string): EffectivePrice | undefined {
    try {
      return models.price(model, { upstream, at: clock.now() });
    } catch {
      return undefined;
    }
  }
  return {
    async listModels({ caller }: OperationContext, _nothing: object) {
      const { principal } = caller;
      const { groups, email, token } = principal;
      const asking = { token_group: token.group, groups, email };
      const known = factsOf(principal);
      const reachable = createReachable(config);
      const pricesOf = (model: ModelConfig) =>
        reachable(model, known)
          .filter((upstream) => models.isServedAt(model, upstream))
          .flatMap((upstream) => {
            const price = priceAt(model, upstream);
            return price === undefined ? [] : [{ upstream, usd_per_million_tokens: ratesOf(price) }];
          });
      const listed = models.all.filter(createIsListed(config, models)(asking, known));
      const refusals = models.all.map((model) => models.refusal(asking, model));
      const by_rules = refusals.some((refusal) => refusal === undefined);
      const none_because = by_rules ? BY_RULES : noModelsBecause(refusals, groups, config);
      return {
        models: listed.map((model) => ({
          id: model.id,
          display_name: model.display_name ?? model.id,
          context_window: model.assumed.includes('context_window') ? null : model.context_window,
          max_output_tokens: model.assumed.includes('max_output_tokens') ? null : model.max_output_tokens,
          prices: pricesOf(model),
        })),
        no_models_because: listed.length > 0 ? null : none_because,
      };
    },
  };
}

const BY_RULES = 'access.rules in gateway.yaml reject every model for you; an administrator can change them';

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

function ratesOf({ pico: { input, output, cache_read, cache_write_5m, cache_write_1h } }: EffectivePrice) {
  const pico = { input, output, cache_read, cache_write_5m, cache_write_1h };
  const usd = Object.entries(pico).map(([name, rate]) => [name, rate / PICO_TO_USD_PER_MILLION]);
  return Object.fromEntries(usd) as typeof pico;
}

const MINUTE_MS = 60_000;
/** Traffic windows, and their number of buckets: of five minutes, of an hour. */
const WINDOWS = {
  hour: { ms: 60 * MINUTE_MS, parts: 12 },
  day: { ms: 24 * 60 * MINUTE_MS, parts: 24 },
} as const;

function mostFirst(a: { readonly attempts: number }, b: { readonly attempts: number }): number {
  return b.attempts - a.attempts;
}

function sum(counts: readonly TrafficCount[]): number {
  return counts.reduce((all, { attempts }) => all + attempts, 0);
}

type Kind = 'served' | 'limited' | 'failed' | 'other';

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

type State = UpstreamState['state'] | 'unknown';

/** An upstream in the admin API. */
export type Shown = Awaited<ReturnType<ReturnType<typeof upstreamOperations>['listUpstreams']>>['upstreams'][number];

type Change = { readonly name: string; readonly reason?: string };

/** States, traffic and incidents of upstreams, drain and resume. For administrators. */
export function upstreamOperations({ config, database, clock, upstreams: states }: AdminOptions) {
  const names = config.upstreams.map(({ name }) => name);
  const routes = [...config.routing.rules, { name: 'default', upstreams: config.routing.default_upstreams }];

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

  async function showAll() {
    const [drained, elsewhere] = await Promise.all([drainedNow(), elsewhereNow()]);
    const known = Map.groupBy(states?.list() ?? [], ({ upstream }) => upstream);
    return [...new Set([...names, ...drained.keys()])].map((name) =>
      show(name, known.get(name) ?? [], drained, elsewhere),
    );
  }

  function show(
    name: string,
    known: readonly UpstreamState[],
    drained: ReadonlyMap<string, Drained>,
    elsewhere: readonly KeptIncident[],
  ) {
    const breaker = config.upstreams.find((upstream) => upstream.name === name)?.breaker.mode ?? null;
    const whole = known.find(({ upstream_model }) => upstream_model === undefined);
    const known_state = whole?.state === 'drained' ? 'closed' : whole?.state;
    const drain = drained.get(name);
    return {
      name,
      configured: breaker !== null,
      ...showState({ ...whole, state: drain === undefined ? (known_state ?? 'unknown') : 'drained' }),
      in_flight: whole?.active ?? null,
      breaker,
      drained: drain === undefined ? null : showDrained(drain),
      models: known.flatMap(({ upstream_model, ...state }) => {
        return upstream_model === undefined ? [] : [{ upstream_model, ...showState(state) }];
      }),
      routes: routes.flatMap((route) => {
        const entry = route.upstreams.find(({ upstream }) => upstream === name);
        if (entry === undefined) return [];
        // All other upstreams of the route are drained.
        const is_last = route.upstreams.every(({ upstream }) => upstream === name || drained.has(upstream));
        return [{ name: route.name, order: entry.order, weight: entry.weight, is_last }];
      }),
      elsewhere: elsewhere
        .filter(({ upstream }) => upstream === name)
        .map(({ replica, kind, upstream_model, until, last }) => ({ replica, kind, upstream_model, until, last })),
    };
  }

  return {
    async listUpstreams(_: OperationContext, _nothing: object) {
      return { replica: states === undefined ? null : REPLICA, upstreams: await showAll() };
    },

    async drainUpstream({ by }: OperationContext, { name, reason }: Change) {
      if (!names.includes(name)) throw unknown(name, names);
      await drainUpstream(by, name, reason);
      const all = await showAll();
      const drained = new Set(all.filter((each) => each.drained !== null).map((each) => each.name));
      const without = routes.filter((route) => route.upstreams.every(({ upstream }) => drained.has(upstream)));
      const upstream = all.find((each) => each.name === name)!;
      return { upstream, routes_without_upstream: without.map((route) => route.name) };
    },

    async resumeUpstream({ by }: OperationContext, { name, reason }: Change) {
      if (!names.includes(name) && !(await listDrained(database)).has(name)) throw unknown(name, names);
      const was_drained = showDrained(await resumeUpstream(by, name, reason));
      const upstream = (await showAll()).find((each) => each.name === name) ?? show(name, [], new Map(), []);
      return { upstream, was_drained };
    },

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
