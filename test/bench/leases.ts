/**
 * What leases save: `node test/bench/leases.ts [--rounds N] [--connections 1,32]`. One gateway whose `spend_limits.lease` is turned
 * on and off between rounds, beside the hop without governance. Prints medians over the rounds.
 * @module
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { RequestsJob, RequestsResult } from './load/generator.ts';
import { startChild, startGoverned, stopChildren } from './processes.ts';
import { cpuOfAll, descendantsOf, type ProcessUsage } from './servers/process-usage.ts';
import { median } from './statistics.ts';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '9' }, connections: { type: 'string', default: '1,32' } },
});
const ROUND_MS = 400;
/** Until leases are taken, or given back. */
const SETTLE_MS = 700;
const LIMITS = { defaults: { user_daily_usd: 5_000_000, team_monthly_usd: 5_000_000 }, reserve: 'worst_case' };

const directory = mkdtempSync(join(tmpdir(), 'appscli-bench-'));
try {
  const upstream = await startChild<{ url: string }>('servers/upstream.ts');
  const bare = await startChild<{ url: string }>('servers/bare-hop.ts', { args: [upstream.ready.url] });
  const governed = await startGoverned({ upstream: upstream.ready.url, directory });
  const load = await startChild<object>('load/generator.ts');
  const subjects = ['bare', 'on', 'off'] as const;
  const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

  for (const connections of values.connections.split(',').map(Number)) {
    const seen = subjects.map((name) => ({ name, rounds: [] as Record<string, number>[] }));
    for (let round = -1; round < Number(values.rounds); round++) {
      for (const { name, rounds } of round % 2 === 0 ? seen : [...seen].reverse()) {
        const child = name === 'bare' ? bare : governed;
        const target = name === 'bare' ? { url: bare.ready.url, token: governed.ready.token } : governed.ready;
        const ask = (duration_ms: number) =>
          load.ask<RequestsResult>('requests', {
            ...target,
            body: '0.5k',
            connections,
            duration_ms,
          } satisfies RequestsJob);
        if (name !== 'bare') await governed.ask('configure', { spend_limits: { ...LIMITS, lease: name } });
        await pause(SETTLE_MS);
        await ask(ROUND_MS / 2);
        const database = () => (name === 'bare' ? 0 : cpuOfAll(descendantsOf(governed.pid)));
        const [database_before, before] = [database(), await child.ask<ProcessUsage>('usage')];
        const result = await ask(ROUND_MS);
        await pause(60);
        const [after, database_after] = [await child.ask<ProcessUsage>('usage'), database()];
        if (round < 0) continue;
        if (result.failed > 0) throw new Error(`${result.failed} requests failed`);
        rounds.push({
          ...{ p50_ms: result.p50_ms, p99_ms: result.p99_ms, per_second: result.per_second },
          cpu_us: (after.cpu_us - before.cpu_us) / result.requests,
          database_us: (database_after - database_before) / result.requests,
        });
      }
    }
    console.log(`\n${connections} connections`);
    for (const { name, rounds } of seen) {
      const middle = (key: string) => median(rounds.map((each) => each[key]!)).toFixed(2);
      console.log(
        name.padEnd(5),
        Object.keys(rounds[0]!)
          .map((key) => `${key} ${middle(key)}`)
          .join('  '),
      );
    }
  }
} finally {
  await stopChildren();
  rmSync(directory, { recursive: true, force: true });
}
