import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The surroundings of a gateway of the bench. */
export interface Surroundings {
  readonly upstream: string;
  /** Where gateway.yaml and the database go. */
  readonly directory: string;
  /** The collector that gets metrics, and traces of one request in ten. */
  readonly collector: string;
  readonly port: number;
}

/** Variables that the configuration names. */
export const BENCH_ENVIRONMENT = { BENCH_UPSTREAM_KEY: 'bench-upstream-key' };

/** What is asked of a caller's token. */
export const BENCH_TOKEN = { user: 'bench@example.com', group: 'engineers', name: 'bench', team: 'speed' };

/** gateway.yaml of the bench: token, token group, routing, limits of a user and a team, reservations of the worst case. */
function benchConfiguration({ upstream, directory, collector, port }: Surroundings) {
  // The second one is a fallback for the first.
  const names = ['static', 'spare'];
  return {
    server: { listen: `127.0.0.1:${port}`, public_url: 'http://127.0.0.1' },
    database: { embedded: { data_dir: dataDirectory({ directory }) } },
    upstreams: names.map((name) => ({
      name,
      type: 'vendor',
      base_url: name === 'static' ? upstream : `${upstream}/${name}`,
      api_key_env: 'BENCH_UPSTREAM_KEY',
    })),
    models: [
      {
        id: 'bench-model',
        family: 'bench',
        context_window: 500_000,
        max_output_tokens: 64_000,
        pricing: { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 },
      },
    ],
    token_groups: [{ name: 'engineers', families: ['bench'] }],
    routing: {
      default_upstreams: names,
      rules: [{ name: 'research', group: 'research', models: ['bench-*'], upstream: 'static' }],
    },
    spend_limits: {
      defaults: { user_daily_usd: 5_000_000, team_monthly_usd: 5_000_000 },
      on_exceeded: 'deny',
      reserve: 'worst_case',
    },
    telemetry: { otlp: { endpoint: `${collector}/v1/traces` }, sampling: { ratio: 0.1 } },
  };
}

/** Where a gateway of the bench keeps its database. */
export const dataDirectory = ({ directory }: Pick<Surroundings, 'directory'>) => join(directory, 'postgres');

/** Writes gateway.yaml. */
export function writeConfiguration(surroundings: Surroundings): string {
  // As root, PostgreSQL runs under another account, which has to get in.
  chmodSync(surroundings.directory, 0o711);
  const file = join(surroundings.directory, 'gateway.yaml');
  writeFileSync(file, JSON.stringify(benchConfiguration(surroundings)));
  return file;
}
