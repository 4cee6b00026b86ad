/**
 * What telemetry costs: CPU time per request of one gateway whose telemetry is switched off, on for one request of ten, and on for
 * each, in turn, by reloads; before that, of telemetry alone. `node test/bench/telemetry.ts [--rounds 40] [--body 0.5k] [--ratios 0.1,1]`,
 * `--rounds 0` for telemetry alone; times in microseconds.
 * @module
 */
import { parseArgs } from 'node:util';
import type { BodyName } from './bodies.ts';
import type { RequestsJob, RequestsResult } from './load/generator.ts';
import { inBenchDirectory, startChild, startGoverned } from './processes.ts';
import type { Collected } from './servers/collector.ts';
import type { ProcessUsage } from './servers/process-usage.ts';
import { median, percentile } from './statistics.ts';
import { measureAlone } from './telemetry-alone.ts';

/** What telemetry may cost a request of 0.5 KB, by the part of requests that have a trace. */
const GOALS_US: Readonly<Record<number, number>> = { 0.1: 10, 1: 40 };
const CONNECTIONS = 32;
const WARM_UP_MS = 4000;
/** After each reload, before it counts. */
const ROUND_WARM_UP_MS = 100;
const ROUND_MS = 400;
/** Batches are sent within a round and not after it, or their cost would fall to the next. */
const SEND_AFTER_MS = 50;
const SETTLE_MS = 130;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '40' },
    body: { type: 'string', default: '0.5k' },
    ratios: { type: 'string', default: '0.1,1' },
  },
});
const ratios = values.ratios.split(',').map(Number);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

interface Round {
  readonly cpu_us: number;
  readonly p50_ms: number;
  readonly requests: number;
  readonly collected: Collected;
}

async function measure(directory: string): Promise<void> {
  const { url } = (await startChild<{ url: string }>('servers/upstream.ts')).ready;
  const collector = await startChild<{ url: string }>('servers/collector.ts');
  const load = await startChild<object>('load/generator.ts');
  const env = { ...process.env, OTEL_BSP_SCHEDULE_DELAY: String(SEND_AFTER_MS) };
  const alone = await measureAlone(`${collector.ready.url}/v1/traces`, ratios);
  const cells = alone.map(({ name, quarter_us }) => `${name} ${quarter_us.toFixed(1)}`).join(', ');
  console.log(`telemetry alone, CPU us per request: ${cells}`);
  await collector.ask('collected');
  if (Number(values.rounds) === 0) return;
  const gateway = await startGoverned({ upstream: url, directory }, env);

  const ask = async (duration_ms: number) => {
    const job = { body: values.body as BodyName, connections: CONNECTIONS, duration_ms } satisfies Partial<RequestsJob>;
    const result = await load.ask<RequestsResult>('requests', { ...gateway.ready, ...job });
    if (result.failed > 0) throw new Error(`${result.failed} requests failed`);
    await pause(SETTLE_MS);
    return result;
  };
  const settings = [
    { name: 'off', sections: {} },
    ...ratios.map((ratio) => ({
      name: `ratio ${ratio}`,
      sections: { telemetry: { otlp: { endpoint: `${collector.ready.url}/v1/traces` }, sampling: { ratio } } },
    })),
  ].map((setting) => ({ ...setting, rounds: [] as Round[] }));

  for (const { sections } of settings) {
    await gateway.ask('configure', sections);
    await ask(WARM_UP_MS);
  }
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const { sections, rounds } of round % 2 === 0 ? settings : settings.toReversed()) {
      await gateway.ask('configure', sections);
      await ask(ROUND_WARM_UP_MS);
      await collector.ask('collected');
      const before = await gateway.ask<ProcessUsage>('usage');
      const { requests, p50_ms } = await ask(ROUND_MS);
      const { cpu_us } = await gateway.ask<ProcessUsage>('usage');
      const collected = await collector.ask<Collected>('collected');
      rounds.push({ cpu_us: (cpu_us - before.cpu_us) / requests, p50_ms, requests, collected });
    }
  }

  const us = (value: number) => value.toFixed(1).padStart(8);
  console.log(
    `CPU us per request, ${values.body} body, ${values.rounds} rounds of about ${settings[0]!.rounds[0]!.requests} requests`,
  );
  console.log(
    `${''.padEnd(12)}  median  quarter  more than off (quarters)        p50 ms  spans/request  bytes/request`,
  );
  const off = settings[0]!.rounds;
  for (const { name, rounds } of settings) {
    const cpu = rounds.map((round) => round.cpu_us);
    const more = cpu.map((value, at) => value - off[at]!.cpu_us);
    const total = (of: (round: Round) => number) => rounds.reduce((sum, round) => sum + of(round), 0);
    const per = (of: (round: Round) => number, digits: number) =>
      (total(of) / total(({ requests }) => requests)).toFixed(digits);
    const quarters = `(${us(percentile(more, 0.25)).trim()} to ${us(percentile(more, 0.75)).trim()})`.padEnd(20);
    console.log(
      `${name.padEnd(12)}${us(median(cpu))} ${us(percentile(cpu, 0.25))} ${us(median(more))} ${quarters}` +
        `${median(rounds.map((round) => round.p50_ms))
          .toFixed(2)
          .padStart(9)}` +
        `${per(({ collected }) => collected.spans, 3).padStart(15)}${per(({ collected }) => collected.bytes, 0).padStart(15)}`,
    );
  }
  for (const ratio of ratios) {
    if (GOALS_US[ratio] !== undefined) console.log(`goal at ratio ${ratio}: at most ${GOALS_US[ratio]} more than off`);
  }
}

await inBenchDirectory(measure);
