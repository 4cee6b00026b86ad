import { hostname } from 'node:os';
import { StageError } from '../contract/errors.ts';
import type { Drained, UpstreamState } from '../contract/forwarding.ts';
import { OperationError } from '../contract/operation-error.ts';
import { didYouMean, listed } from '../kit/text/suggest.ts';
import { drainUpstream, listDrained, resumeUpstream } from '../upstreams/states/drained-upstreams.ts';
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
}

/** How upstreams are, and which of them get no new requests. For administrators. */
export function upstreamOperations({ config, database, upstreams: states }: AdminOptions) {
  /** What this replica read last, where the database can't be asked. */
  async function drainedNow(): Promise<ReadonlyMap<string, Drained>> {
    try {
      return await listDrained(database);
    } catch (error) {
      if (states === undefined || !(error instanceof StageError)) throw error;
      return new Map(states.list().flatMap(({ upstream, drained }) => (drained ? [[upstream, drained]] : [])));
    }
  }

  async function show(): Promise<Shown[]> {
    const drained = await drainedNow();
    const known = states?.list() ?? [];
    const names = config.upstreams.map(({ name }) => name);
    const gone = [...drained.keys()].filter((name) => !names.includes(name));
    return [...names, ...gone].map((name) => {
      const breaker = config.upstreams.find((upstream) => upstream.name === name)?.breaker.mode ?? null;
      const of = known.filter(({ upstream }) => upstream === name);
      return showUpstream(name, { breaker, known: of, drained: drained.get(name) });
    });
  }

  /** Routes that have no upstream to which new requests may go. */
  function withoutUpstream(upstreams: readonly Shown[]): string[] {
    const drained = new Set(upstreams.filter((each) => each.drained !== null).map(({ name }) => name));
    const { rules, default_upstreams } = config.routing;
    const routes = [...rules, { name: 'default', upstreams: default_upstreams }];
    return routes
      .filter((route) => route.upstreams.every(({ upstream }) => drained.has(upstream)))
      .map(({ name }) => name);
  }

  return {
    async listUpstreams(_: Asked, _nothing: object) {
      const replica = states === undefined ? null : `${hostname()} ${process.pid}`;
      return { replica, upstreams: await show() };
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
      const gone = showUpstream(name, { breaker: null, known: [], drained: undefined });
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
  },
): Shown {
  const { breaker, known, drained } = given;
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
