import type { GatewayConfig } from '../contract/config.ts';
import { StageError } from '../contract/errors.ts';
import type { Drained, UpstreamState } from '../contract/forwarding.ts';
import { OperationError } from '../contract/operation-error.ts';
import { REPLICA } from '../kit/process/replica.ts';
import { didYouMean, listed } from '../kit/text/suggest.ts';
import { isUnavailable } from '../store/store-errors.ts';
import { drainUpstream, listDrained, resumeUpstream } from '../upstreams/states/drained-upstreams.ts';
import { type KeptTrouble, troublesElsewhere } from '../upstreams/states/kept-troubles.ts';
import type { AdminOptions, Asked } from './asked.ts';
import { showName } from './input.ts';

/** How an upstream or one of its models is; `unknown` where no gateway is asked. */
type State = UpstreamState['state'] | 'unknown';

export interface Shown {
  readonly name: string;
  /** Whether gateway.yaml has it. */
  readonly configured: boolean;
  readonly state: State;
  readonly until: Date | null;
  readonly last_failure: string | null;
  readonly in_flight: number | null;
  readonly breaker: 'enforce' | 'shadow' | 'off' | null;
  readonly drained: { readonly by: string; readonly at: Date; readonly reason: string | null } | null;
  readonly models: readonly {
    readonly upstream_model: string;
    readonly state: State;
    readonly until: Date | null;
    readonly last_failure: string | null;
  }[];
  readonly routes: readonly Route[];
  /** What other replicas keep from it. */
  readonly elsewhere: readonly Pick<KeptTrouble, 'replica' | 'kind' | 'upstream_model' | 'until' | 'last'>[];
}

/** A route that an upstream stands in. */
interface Route {
  /** Name of the rule, or `default`. */
  readonly name: string;
  /** From 0: those of the lowest order are asked first. */
  readonly order: number;
  readonly weight: number;
  /** Whether no other upstream of the route gets new requests. */
  readonly is_last: boolean;
}

/** How upstreams are, and which of them get no new requests. For administrators. */
export function upstreamOperations({ config, database, clock, upstreams: states }: AdminOptions) {
  /** What this replica read last, where the database can't be asked. */
  async function drainedNow(): Promise<ReadonlyMap<string, Drained>> {
    try {
      return await listDrained(database);
    } catch (error) {
      if (states === undefined || !(error instanceof StageError)) throw error;
      return new Map(states.list().flatMap(({ upstream, drained }) => (drained ? [[upstream, drained]] : [])));
    }
  }

  /** What other replicas told; nothing where the database can't be asked, nor where no gateway is. */
  async function elsewhereNow(): Promise<readonly KeptTrouble[]> {
    if (states === undefined) return [];
    try {
      return await troublesElsewhere(database, new Date(clock.now()));
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
      const told = elsewhere.filter(({ upstream }) => upstream === name);
      const of_it = {
        breaker,
        known: of,
        drained: drained.get(name),
        routes: routesOf(name, drained),
        elsewhere: told,
      };
      return showUpstream(name, of_it);
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

  /** Routes that have no upstream to which new requests may go. */
  function withoutUpstream(upstreams: readonly Shown[]): string[] {
    const drained = new Set(upstreams.filter((each) => each.drained !== null).map(({ name }) => name));
    return allRoutes(config)
      .filter((route) => route.upstreams.every(({ upstream }) => drained.has(upstream)))
      .map(({ name }) => name);
  }

  return {
    async listUpstreams(_: Asked, _nothing: object) {
      return { replica: states === undefined ? null : REPLICA, upstreams: await show() };
    },

    async drainUpstream({ by }: Asked, { name, reason }: { readonly name: string; readonly reason?: string }) {
      const names = config.upstreams.map((upstream) => upstream.name);
      if (!names.includes(name)) throw unknown(name, names);
      await drainUpstream(by, name, reason);
      const all = await show();
      const upstream = all.find((each) => each.name === name)!;
      return { upstream, routes_without_upstream: withoutUpstream(all) };
    },

    async resumeUpstream({ by }: Asked, { name, reason }: { readonly name: string; readonly reason?: string }) {
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
  given: {
    readonly breaker: Shown['breaker'];
    readonly known: readonly UpstreamState[];
    readonly drained: Drained | undefined;
    readonly routes: readonly Route[];
    readonly elsewhere: readonly KeptTrouble[];
  },
): Shown {
  const { breaker, known, drained, routes, elsewhere } = given;
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
