/**
 * The gateway as it ships, with everything on: token, token group, routing, limits, reservation and ledger in a real
 * PostgreSQL that syncs to disk, meter, audit. Its one argument says what is around it, as JSON.
 */
import { Session } from 'node:inspector/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { startGateway } from '../../../engine/gateway/start-gateway.ts';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { stages } from '../../../stages/index.ts';
import { until } from '../../support/until.ts';
import { BENCH_ENVIRONMENT, BENCH_TOKEN, type Surroundings, writeConfiguration } from '../configuration.ts';
import { serveParent } from './parent.ts';

const surroundings: Surroundings = JSON.parse(process.argv[2]!);
const config_file = writeConfiguration(surroundings);

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
  env: { ...process.env, ...BENCH_ENVIRONMENT },
  log: silent,
});
await until('the database is ready', async () => (await gateway.database.check()).ok);

async function tokenOf(user: unknown): Promise<string> {
  const { token } = await createToken(
    { database: gateway.database, clock: systemClock, actor: { kind: 'command', name: 'bench' } },
    { ...BENCH_TOKEN, user: String(user) },
  );
  return token;
}
const token = await tokenOf(BENCH_TOKEN.user);

/** Puts other sections of gateway.yaml in force. */
async function configure(sections: unknown): Promise<void> {
  writeConfiguration(surroundings, sections as object);
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

const inspector = new Session();

/** Begins a CPU profile of this process. */
async function startProfile(): Promise<void> {
  inspector.connect();
  await inspector.post('Profiler.enable');
  await inspector.post('Profiler.setSamplingInterval', { interval: 250 });
  await inspector.post('Profiler.start');
}

/** Ends it. @returns the profile, as JSON */
async function stopProfile(): Promise<string> {
  const { profile } = await inspector.post('Profiler.stop');
  inspector.disconnect();
  return JSON.stringify(profile);
}

serveParent(
  { url: gateway.url, token },
  {
    configure,
    token_of: tokenOf,
    memory: () => process.memoryUsage(),
    longest_pause: longestPause,
    start_profile: startProfile,
    stop_profile: stopProfile,
  },
  () => gateway.close(),
);
