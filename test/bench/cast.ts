import { resolve } from 'node:path';
import type { Surroundings } from './configuration.ts';
import { type Child, startChild } from './processes.ts';
import { startPublicGateway } from './public-gateway.ts';
import { ownServer, type Server } from './servers.ts';
import { checkOut, directoryFor } from './verdicts/against.ts';

/** The participants of a run. */
export interface Cast {
  readonly servers: readonly Server[];
  readonly load: Child<unknown>;
}

interface Scene {
  readonly upstream: Child<{ url: string }>;
  readonly bare: Child<{ url: string }>;
  /** Starts the gateway of a checkout, with a collector for its telemetry and a second upstream in reserve. */
  start(name: string, checkout?: string): Promise<Server>;
}

const HERE = resolve(import.meta.dirname, '../..');

async function startScene(directory: string): Promise<Scene> {
  const upstream = await startChild<{ url: string }>('servers/upstream.ts');
  const { url } = upstream.ready;
  const bare = await startChild<{ url: string }>('servers/bare-hop.ts', { args: [url] });
  const collector = await startChild<{ url: string }>('servers/collector.ts');
  const around: Omit<Surroundings, 'directory' | 'port'> = { upstream: url, collector: collector.ready.url };
  return {
    upstream,
    bare,
    start: (name, checkout = HERE) =>
      startPublicGateway(name, checkout, { ...around, directory: directoryFor(`${name}-files`, directory) }),
  };
}

/** The upstream itself, the bare hop and the gateway. */
export async function startCast(directory: string): Promise<Cast> {
  const { upstream, bare, start } = await startScene(directory);
  const governed = await start('governed');
  return {
    servers: [
      ownServer('direct', { url: upstream.ready.url, token: 'none' }, upstream, true),
      ownServer('bare', { url: bare.ready.url, token: governed.target.token }, bare),
      governed,
    ],
    load: await startChild<object>('load/generator.ts'),
  };
}

/** The bare hop, the gateway of a revision, and the current gateway, both started alike. */
export async function startCastAgainst(directory: string, revision: string): Promise<Cast & { commit: string }> {
  const { checkout, commit } = checkOut(revision, directory);
  const { bare, start } = await startScene(directory);
  const before = await start('before', checkout);
  const governed = await start('governed');
  return {
    servers: [ownServer('bare', { url: bare.ready.url, token: governed.target.token }, bare), before, governed],
    load: await startChild<object>('load/generator.ts'),
    commit,
  };
}
