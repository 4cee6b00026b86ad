/**
 * How long reports take on a large ledger: `node test/bench/reports.ts --data-dir DIR [--rounds 20] [--days 90]`. DIR is what
 * `reports/large-ledger.ts` filled. Prints the median and the 95th percentile of usage by each dimension and by some of two to
 * four, then of every GET operation of the admin API, asked by an administrator through a gateway.
 * @module
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startGateway } from '../../engine/gateway/start-gateway.ts';
import { makeLink } from '../../engine/identity/sessions/console-sessions.ts';
import { systemClock } from '../../engine/kit/clock.ts';
import { PACKAGE_ROOT } from '../../engine/kit/package-root.ts';
import { startUsageSums } from '../../engine/money/ledger/usage-sums.ts';
import { reportUsage, USAGE_DIMENSIONS, type UsageDimension } from '../../engine/money/reports/usage.ts';
import { stages } from '../../stages/index.ts';
import { until } from '../support/until.ts';
import { percentile } from './statistics.ts';

const DAY_MS = 86_400_000;
const GOAL_MS = 300;
const SEVERAL: readonly (readonly UsageDimension[])[] = [
  ['team', 'model'],
  ['day', 'team'],
  ['month', 'user'],
  ['upstream', 'status'],
  ['day', 'model', 'upstream'],
  ['week', 'team', 'project'],
  ['user', 'token', 'model'],
  ['month', 'team', 'model', 'upstream'],
  ['user', 'team', 'project', 'model'],
];

const { values } = parseArgs({
  options: {
    'data-dir': { type: 'string' },
    rounds: { type: 'string', default: '20' },
    days: { type: 'string', default: '90' },
    zone: { type: 'string', default: 'UTC' },
    only: { type: 'string', default: 'reports,api' },
  },
});
const data_dir = values['data-dir'];
if (data_dir === undefined) throw new Error('--data-dir says where reports/large-ledger.ts put the database');
const rounds = Number(values.rounds);
const since = new Date(Math.floor(Date.now() / DAY_MS) * DAY_MS - (Number(values.days) - 1) * DAY_MS);

const month = since.toISOString().slice(0, 10);
/** What is asked of operations that need to be told something, or are asked in several ways. */
const QUESTIONS: Readonly<Record<string, readonly string[]>> = {
  '/admin/api/usage': [
    `?since=${month}&by=day`,
    `?since=${month}&by=day,team&compare=previous`,
    `?since=${month}&by=user,model&limit=50`,
    `?since=${month}&user=person-7%40example.com&by=day`,
  ],
  '/admin/api/usage.csv': [`?since=${month}&by=month,user,model`],
  '/admin/api/requests': [
    '',
    '?user=person-7%40example.com',
    '?user=person-399%40example.com',
    '?model=writer-small',
    '?upstream=cloud',
    '?status=5xx',
    '?error=model_forbidden',
    `?until=${month}T12%3A00%3A00Z`,
  ],
  '/admin/api/people': ['', '?search=person-39'],
  '/admin/api/tokens': ['', '?user=person-7%40example.com', '?search=person-39'],
  '/admin/api/limits': ['', '?user=person-7%40example.com'],
  '/admin/api/limits/preview': ['?user=person-7%40example.com&window=day&usd=10'],
  '/admin/api/upstreams/traffic': ['?window=hour', '?window=day'],
  '/admin/api/config/diff': [],
  '/admin/api/policies/effective': ['?user=person-7%40example.com'],
};

const silent = { debug() {}, info() {}, warn() {}, error: console.error };
const directory = mkdtempSync(join(tmpdir(), 'appscli-bench-'));
chmodSync(directory, 0o711);
const config_file = join(directory, 'gateway.yaml');
writeFileSync(config_file, JSON.stringify(configuration(data_dir)));
const env = { ...process.env, BENCH_UPSTREAM_KEY: 'bench-upstream-key' };
const gateway = await startGateway({ config_file, stages, env, log: silent });
try {
  await until('the database is ready', async () => (await gateway.database.check()).ok);
  await sumRest();
  if (values.only.includes('reports')) await measureReports();
  if (values.only.includes('api')) await measureOperations();
} finally {
  await gateway.close();
  rmSync(directory, { recursive: true, force: true });
}

function configuration(data: string): object {
  const upstream = (name: string) => ({
    name,
    type: 'vendor',
    base_url: 'http://127.0.0.1:9',
    api_key_env: 'BENCH_UPSTREAM_KEY',
  });
  const pricing = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };
  const model = (id: string) => ({
    id,
    family: id.split('-')[0],
    context_window: 200_000,
    max_output_tokens: 64_000,
    pricing,
  });
  return {
    server: { listen: '127.0.0.1:0', public_url: 'http://127.0.0.1' },
    database: { embedded: { data_dir: data } },
    upstreams: ['main', 'spare', 'cloud'].map(upstream),
    models: ['coder-large', 'coder-medium', 'coder-small', 'thinker-large', 'writer-large', 'writer-small'].map(model),
    token_groups: ['everyday', 'research', 'automation'].map((name) => ({
      name,
      families: ['coder', 'thinker', 'writer'],
    })),
    routing: { default_upstream: 'main' },
    spend_limits: { defaults: { user_daily_usd: 50, team_monthly_usd: 5000 }, on_exceeded: 'deny' },
  };
}

/** Until all of the ledger is in the sums. */
async function sumRest(): Promise<void> {
  const sums = startUsageSums({ database: gateway.database, clock: systemClock, log: silent, every: () => () => {} });
  const isComplete = async () => {
    const [row] = await gateway.database.knex('usage_state');
    return row.summed_from === Number.NEGATIVE_INFINITY;
  };
  while (!(await isComplete())) await sums.sum().catch(() => {});
}

async function measure(name: string, work: () => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const started = performance.now();
    await work();
    // The first one warms up.
    if (round > 0) times.push(performance.now() - started);
  }
  const p95 = percentile(times, 0.95);
  const told = (ms: number) => ms.toFixed(0).padStart(7);
  console.log(`${told(percentile(times, 0.5))}${told(p95)}  ${p95 > GOAL_MS ? 'MISSED' : '      '}  ${name}`);
}

async function measureReports(): Promise<void> {
  console.log(`\nUsage of ${values.days} days, time zone ${values.zone}, in milliseconds\n\n    p50    p95`);
  for (const by of [...USAGE_DIMENSIONS.map((name) => [name]), ...SEVERAL]) {
    await measure(by.join(', '), () => reportUsage(gateway.database, { since }, { by, time_zone: values.zone }));
  }
  await measure('team, of one user', () =>
    reportUsage(gateway.database, { since, user: 'person-7@example.com' }, { by: ['team'], time_zone: values.zone }),
  );
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
}

/** Paths of the GET operations that need nothing but what is in QUESTIONS. */
function* operations(): Generator<string> {
  const text = readFileSync(join(PACKAGE_ROOT, 'schemas/admin-api.openapi.json'), 'utf8');
  const { paths } = JSON.parse(text) as { paths: Record<string, { get?: { parameters?: Parameter[] } }> };
  for (const [path, { get }] of Object.entries(paths)) {
    if (get === undefined || path.includes('{') || /live|\.jsonl$/.test(path)) continue;
    for (const question of QUESTIONS[path] ?? ['']) yield `${path}${question}`;
  }
}

async function measureOperations(): Promise<void> {
  const secret = await makeLink({ database: gateway.database, clock: systemClock }, 'bench');
  const opened = await fetch(`${gateway.url}/console/link?once=${secret}`, { redirect: 'manual' });
  const cookie = opened.headers
    .getSetCookie()
    .map((each) => each.split(';')[0])
    .join('; ');
  console.log('\nOperations of the admin API, in milliseconds\n\n    p50    p95');
  for (const path of operations()) {
    let status = 0;
    const ask = async () => {
      const response = await fetch(`${gateway.url}${path}`, {
        headers: { cookie, 'x-console': '1', 'sec-fetch-site': 'same-origin' },
      });
      await response.arrayBuffer();
      status = response.status;
    };
    await ask();
    await measure(`${path}${status === 200 ? '' : ` (answered ${status})`}`, ask);
  }
}
