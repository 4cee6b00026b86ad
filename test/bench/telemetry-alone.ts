import { systemClock } from '../../engine/kit/clock.ts';
import { stageConfig } from '../../engine/simulate/stage-harness.ts';
import { openTelemetry } from '../../engine/telemetry/open-telemetry.ts';
import { endedRequest } from './ended-request.ts';
import { percentile } from './statistics.ts';

const REQUESTS = 6000;
/** Ended within one turn of the event loop. */
const TOGETHER = 20;
const ROUNDS = 15;
/** Longest until the last batch was sent. */
const SETTLE_MS = 150;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const silent = { debug() {}, info() {}, warn: console.error, error: console.error };

/** CPU time of one request in telemetry, in microseconds, by setting. */
export interface Alone {
  readonly name: string;
  /** The least quarter of the rounds: what is above is other programs' doing. */
  readonly quarter_us: number;
}

/**
 * Measures telemetry by itself, with nothing around it: counting, making spans, encoding and sending them, of this whole process.
 * @param ratios parts of requests that have a trace; before them, telemetry that goes nowhere
 */
export async function measureAlone(endpoint: string, ratios: readonly number[]): Promise<Alone[]> {
  const base = stageConfig();
  const configFor = (telemetry: object) => ({ ...base, telemetry: { ...base.telemetry, ...telemetry } }) as typeof base;
  const otlp = {
    endpoint,
    protocol: 'http/protobuf',
    timeout_seconds: 10,
    compression: 'none',
    traces: true,
    metrics: true,
    logs: false,
    queue_spans: 16_384,
  } as const;
  const sampling = (ratio: number) => ({ ...base.telemetry.sampling, ratio });
  const settings = [
    { name: 'off', config: configFor({}) },
    ...ratios.map((ratio) => ({ name: `ratio ${ratio}`, config: configFor({ otlp, sampling: sampling(ratio) }) })),
  ].map((setting) => ({ ...setting, rounds: [] as number[] }));

  let config = settings[0]!.config;
  const env = { OTEL_BSP_SCHEDULE_DELAY: '20' };
  const telemetry = await openTelemetry({ config, in_force: () => config, env, clock: systemClock, log: silent });
  const run = async (told: boolean) => {
    const start = process.cpuUsage();
    for (let done = 0; done < REQUESTS; done += TOGETHER) {
      for (let i = 0; i < TOGETHER; i++) {
        const request = endedRequest();
        if (told) telemetry.requestEnded(request);
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    await pause(SETTLE_MS);
    const { user, system } = process.cpuUsage(start);
    return (user + system) / REQUESTS;
  };
  const untold: number[] = [];
  for (let round = -3; round < ROUNDS; round++) {
    const nothing = await run(false);
    if (round >= 0) untold.push(nothing);
    for (const setting of settings) {
      config = setting.config;
      telemetry.use(config);
      await pause(SETTLE_MS);
      const cpu = await run(true);
      if (round >= 0) setting.rounds.push(cpu);
    }
  }
  await telemetry.close();
  const nothing = percentile(untold, 0.25);
  return settings.map(({ name, rounds }) => ({ name, quarter_us: percentile(rounds, 0.25) - nothing }));
}
