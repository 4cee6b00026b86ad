/**
 * One hostile caller beside twenty honest ones: `node test/bench/hostile.ts [--seconds 120] [--attacks bodies,flood]`.
 * Measures the honest ones alone, then during the attacks. The goals: no honest request fails, and their 99th percentile
 * at most doubles.
 * @module
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { askHonestly, type Experience } from '../support/identity/honest-callers.ts';
import { ATTACKS } from '../support/identity/hostile-caller.ts';
import { requestBody } from './bodies.ts';
import { startChild, startGoverned, stopChildren } from './processes.ts';
import type { ProcessUsage } from './servers/process-usage.ts';
import { median, percentile } from './statistics.ts';

const PEOPLE = 20;
const MIB = 1024 * 1024;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '120' },
    attacks: { type: 'string', default: ATTACKS.join(',') },
  },
});
const seconds = Number(values.seconds);
const directory = mkdtempSync(join(tmpdir(), 'appscli-hostile-'));

function describe(who: string, { durations, failures }: Experience, pause_ms: number, memory: number): void {
  const figures = [median(durations), percentile(durations, 0.99), Math.max(...durations)].map((ms) => ms.toFixed(0));
  console.log(
    `${who}: ${durations.length} answered, ${failures.length} failed; median ${figures[0]} ms, 99th percentile ${figures[1]} ms, longest ${figures[2]} ms; longest pause of the event loop ${pause_ms.toFixed(0)} ms; memory up to ${(memory / MIB).toFixed(0)} MiB`,
  );
  for (const failure of failures.slice(0, 5)) console.log(`  ${failure}`);
}

try {
  const upstream = await startChild<{ url: string }>('servers/upstream.ts');
  const gateway = await startGoverned({ upstream: upstream.ready.url, directory });
  const attacker = await startChild('servers/attacker.ts');
  const { url } = gateway.ready;
  const tokens: string[] = [];
  for (let i = 0; i < PEOPLE; i++) tokens.push(await gateway.ask('token_of', `person-${i}@example.com`));

  const measure = async (for_seconds: number) => {
    await gateway.ask('reset_peak');
    await gateway.ask('longest_pause');
    const met = await askHonestly({
      url,
      tokens,
      seconds: for_seconds,
      body: requestBody('100k'),
      headers: { 'x-bench-events': '10', 'x-bench-interval': '20' },
      pause_ms: 500,
    });
    const { peak_rss_bytes } = await gateway.ask<ProcessUsage>('usage');
    return { met, pause_ms: await gateway.ask<number>('longest_pause'), peak_rss_bytes };
  };

  await measure(Math.min(5, seconds));
  const alone = await measure(Math.max(2, seconds / 4));
  describe('alone', alone.met, alone.pause_ms, alone.peak_rss_bytes);
  const names = values.attacks.split(',');
  await attacker.ask('attack', { url, token: gateway.ready.token, model: 'bench-model', names });
  const attacked = await measure(seconds);
  const statuses = await attacker.ask('stop_attack');
  describe('beside attacks', attacked.met, attacked.pause_ms, attacked.peak_rss_bytes);
  console.log(`the attacks (${names.join(', ')}) were answered, by status: ${JSON.stringify(statuses)}`);
  const ratio = percentile(attacked.met.durations, 0.99) / percentile(alone.met.durations, 0.99);
  const kept = attacked.met.failures.length === 0 && ratio <= 2;
  console.log(`99th percentile: ${ratio.toFixed(2)} times that of alone; goals ${kept ? 'met' : 'MISSED'}`);
  process.exitCode = kept ? 0 : 1;
} finally {
  await stopChildren();
  rmSync(directory, { recursive: true, force: true });
}
