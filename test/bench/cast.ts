import { resolve } from 'node:path';
import type { Surroundings } from './configuration.ts';
import type { Peer } from './options.ts';
import { type Child, startChild, startGoverned } from './processes.ts';
import { startPublicGateway } from './public-gateway.ts';
import { otherServer, ownServer, type Server } from './servers.ts';
import { checkOut, directoryFor } from './verdicts/against.ts';

/** What takes part in a run. */
export interface Cast {
  readonly servers: readonly Server[];
  readonly load: Child<unknown>;
}

/** A run of the gateway as the bench has it, which can be looked into. */
export interface OwnCast extends Cast {
  readonly gateway: Child<unknown>;
}

interface Scene {
  readonly upstream: Child<{ url: string }>;
  readonly bare: Child<{ url: string }>;
  /** What the gateways have around them: telemetry goes to a collector, and a second upstream stands ready. */
  readonly around: Omit<Surroundings, 'directory'>;
}

async function startScene(upstream_port: number): Promise<Scene> {
  const upstream = await startChild<{ url: string }>('servers/upstream.ts', { args: [String(upstream_port)] });
  const { url } = upstream.ready;
  const bare = await startChild<{ url: string }>('servers/bare-hop.ts', { args: [url] });
  const collector = await startChild<{ url: string }>('servers/collector.ts');
  return { upstream, bare, around: { upstream: url, spare: true, collector: collector.ready.url } };
}

/** The upstream itself, the bare hop, the gateway, and what others run. */
export async function startCast(directory: string, peers: readonly Peer[], upstream_port: number): Promise<OwnCast> {
  const { upstream, bare, around } = await startScene(upstream_port);
  const gateway = await startGoverned({ ...around, directory });
  const { token } = gateway.ready;
  return {
    servers: [
      ownServer('direct', { url: upstream.ready.url, token: 'none' }, upstream, true),
      ownServer('bare', { url: bare.ready.url, token }, bare),
      ownServer('governed', gateway.ready, gateway),
      ...peers.map(({ url, token, pid }, at) => otherServer(`peer ${at + 1}`, { url, token }, pid)),
    ],
    load: await startChild<object>('load/generator.ts'),
    gateway,
  };
}

/** The bare hop, the gateway of a revision, and the gateway as it is now, both started alike. */
export async function startCastAgainst(directory: string, revision: string): Promise<Cast & { commit: string }> {
  const { checkout, commit } = checkOut(revision, directory);
  const { bare, around } = await startScene(0);
  const start = (name: string, from: string) =>
    startPublicGateway(name, from, { ...around, directory: directoryFor(`${name}-files`, directory) });
  const before = await start('before', checkout);
  const governed = await start('governed', resolve(import.meta.dirname, '../..'));
  return {
    servers: [ownServer('bare', { url: bare.ready.url, token: governed.target.token }, bare), before, governed],
    load: await startChild<object>('load/generator.ts'),
    commit,
  };
}
