import type { GatewayConfig, UpstreamConfig } from '../../contract/config.ts';
import { placeOf } from '../../kit/net/tunnel.ts';
import { configHash } from '../config-hash.ts';
import { CONVENTIONS, type Conventions, conventionsOf, providerOf } from '../conventions.ts';
import { ratioOf } from './sampling.ts';

/** Where something listens, in the words of the conventions. */
export interface Address {
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
}

/** What spans say of an upstream. */
export interface KnownUpstream {
  readonly address: Address;
  readonly region: string | undefined;
  /** `gen_ai.provider.name`, by the protocol in which it is asked. */
  provider(protocol: string): string;
}

/** What is worked out ahead of a configuration, for every request that it serves. */
export interface KnownConfiguration {
  readonly config: GatewayConfig;
  readonly hash: string;
  readonly conventions: Conventions;
  /** Part of all traces that are sent, by the identifier of the trace. */
  readonly ratio: number;
  readonly slow_ms: number;
  readonly tells_team: boolean;
  readonly tells_caller: boolean;
  /** As clients reach the gateway. */
  readonly address: Address;
  /** Whether metrics tell a model apart by its id; where gateway.yaml names none, the first so many that answered. */
  tellsModel(id: string, answered: boolean): boolean;
  readonly upstreams: ReadonlyMap<string, KnownUpstream>;
  /** By routing rule, the place of each upstream in it; several can share one. */
  readonly places: ReadonlyMap<string, ReadonlyMap<string, number>>;
}

/** Works out what telemetry needs of a configuration. */
export function learnConfiguration(config: GatewayConfig, env: NodeJS.ProcessEnv): KnownConfiguration {
  const { telemetry, routing, server } = config;
  const routes = [{ name: 'default', upstreams: routing.default_upstreams }, ...routing.rules];
  return {
    config,
    hash: configHash(config),
    conventions: CONVENTIONS[conventionsOf(config, env)],
    ratio: ratioOf(config, env),
    slow_ms: telemetry.sampling.slow_seconds * 1000,
    tells_team: telemetry.metrics.team,
    tells_caller: telemetry.caller === 'pseudonym',
    address: addressOf(server.public_url),
    tellsModel: modelsTold(config),
    upstreams: new Map(config.upstreams.map((upstream) => [upstream.name, learnUpstream(upstream)])),
    places: new Map(
      routes.map(({ name, upstreams }) => [name, new Map(upstreams.map(({ upstream, order }) => [upstream, order]))]),
    ),
  };
}

/** Callers choose the ids, and each is a label for as long as the gateway runs. */
const TOLD_MAX = 200;

function modelsTold({ models, from_model_lists }: GatewayConfig): KnownConfiguration['tellsModel'] {
  const told = new Set(models.map(({ id }) => id));
  if (!from_model_lists) return (id) => told.has(id);
  return (id, answered) => {
    if (answered && told.size < TOLD_MAX) told.add(id);
    return told.has(id);
  };
}

function addressOf(base_url: string): Address {
  const url = new URL(base_url);
  return { scheme: url.protocol.slice(0, -1), ...placeOf(url) };
}

function learnUpstream({ base_url, region }: UpstreamConfig): KnownUpstream {
  const address = addressOf(base_url);
  const providers = new Map<string, string>();
  return {
    address,
    region,
    provider(protocol) {
      const known = providers.get(protocol) ?? providerOf(address.host, protocol);
      providers.set(protocol, known);
      return known;
    },
  };
}
