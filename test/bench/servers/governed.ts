/**
 * The gateway as it ships, with everything on: token, token group, routing, limits, reservation and ledger in a real
 * PostgreSQL that syncs to disk, meter, audit. A third argument says over how many upstreams sessions are spread.
 */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { startGateway } from '../../../engine/gateway/start-gateway.ts';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { stages } from '../../../stages/index.ts';
import { until } from '../../support/until.ts';
import { serveParent } from './parent.ts';

const [upstream, directory, count = '1'] = process.argv.slice(2) as [string, string, string?];
const names = Array.from({ length: Number(count) }, (_, index) => (index === 0 ? 'static' : `static-${index + 1}`));
const route = names.map((name) => ({ upstream: name, weight: 1 }));

const config = {
  server: { listen: '127.0.0.1:0', public_url: 'http://127.0.0.1' },
  database: { embedded: { data_dir: join(directory, 'postgres') } },
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
    ...(names.length === 1 ? { default_upstream: 'static' } : { default_upstreams: route }),
    rules: [{ name: 'research', group: 'research', models: ['bench-*'], upstream: 'static' }],
  },
  spend_limits: {
    defaults: { user_daily_usd: 5_000_000, team_monthly_usd: 5_000_000 },
    on_exceeded: 'deny',
    reserve: 'worst_case',
  },
};

// As root, PostgreSQL runs under another account, which has to get in.
chmodSync(directory, 0o711);
const config_file = join(directory, 'gateway.yaml');
const write = (sections: object) => writeFileSync(config_file, JSON.stringify({ ...config, ...sections }));
write({});

const said = new Set<string>();
/** Says the same thing once, however often the configuration is put in force. */
function say(_fields: object, text: string): void {
  if (!said.has(text)) console.error(text);
  said.add(text);
}
const silent = { debug: () => {}, info: () => {}, warn: say, error: say };
const gateway = await startGateway({
  config_file,
  stages,
  env: { ...process.env, BENCH_UPSTREAM_KEY: 'bench-upstream-key' },
  log: silent,
});
await until('the database is ready', async () => (await gateway.database.check()).ok);

async function tokenOf(user: unknown): Promise<string> {
  const { token } = await createToken(
    { database: gateway.database, clock: systemClock, actor: { kind: 'command', name: 'bench' } },
    { user: String(user), group: 'engineers', name: 'bench', team: 'speed' },
  );
  return token;
}
const token = await tokenOf('bench@example.com');

/** Puts other sections of gateway.yaml in force. */
async function configure(sections: unknown): Promise<void> {
  write(sections as object);
  await gateway.reload();
}

const pauses = monitorEventLoopDelay({ resolution: 10 });
pauses.enable();

/** The longest time the event loop stood still since this was asked last, in milliseconds. */
function longestPause(): number {
  const longest = pauses.max / 1e6;
  pauses.reset();
  return longest;
}

const MICROSECONDS_PER_TICK = 10_000;

/** CPU time of a process in microseconds, 0 when it cannot be known. */
function cpuOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ');
    return (Number(fields[11]) + Number(fields[12])) * MICROSECONDS_PER_TICK;
  } catch {
    return 0;
  }
}

/** CPU time of all of PostgreSQL's processes so far, in microseconds. */
async function databaseCpu(): Promise<number> {
  const processes: { pid: number }[] = await gateway.database.knex('pg_stat_activity').select('pid');
  return processes.reduce((sum, { pid }) => sum + cpuOf(pid), 0);
}

serveParent(
  { url: gateway.url, token },
  {
    configure,
    database_cpu: databaseCpu,
    token_of: tokenOf,
    memory: () => process.memoryUsage(),
    longest_pause: longestPause,
  },
  () => gateway.close(),
);
