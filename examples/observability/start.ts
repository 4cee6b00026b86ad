/**
 * Runs the gateway of gateway.yaml with all telemetry on, two mock model providers, sample traffic, and, if installed, a
 * collector, Prometheus and Grafana: `node_modules/.bin/node examples/observability/start.ts`.
 * @module
 */
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createLog } from '../../engine/base/kit/log.ts';
import { reportFailure } from '../../engine/edge/cli/main.ts';
import { processTerminal } from '../../engine/edge/cli/terminal.ts';
import { type Closable, runUntilSignal } from '../../engine/edge/gateway/signals.ts';
import { startGateway } from '../../engine/edge/gateway/start-gateway.ts';
import { stages } from '../../stages/index.ts';
import { startUpstream } from '../demo/upstream.ts';
import { startPrograms } from './programs.ts';
import { startTraffic } from './traffic.ts';

const HERE = import.meta.dirname;
const API_KEY = 'a-key-of-mocks';
const MAIN_PORT = 19101;
const SPARE_PORT = 19102;
/** How long main works, and how long each outage lasts. */
const WORKS_MS = 150_000;
const AWAY_MS = 20_000;

const terminal = processTerminal(process.env);
terminal.outliveReader();
const { debug, warn, error } = createLog({
  write: (line) => terminal.info(line),
  format: 'readable',
  debug: process.env.APPSCLI_DEBUG === '1',
});

const log = { debug, info() {}, warn, error };

/** A provider with regular outages. */
async function startMain(): Promise<Closable> {
  const stop = new AbortController();
  const options = { api_key: API_KEY, port: MAIN_PORT };
  let upstream: Closable | undefined = await startUpstream(options);
  const wait = (ms: number) => pause(ms, undefined, { signal: stop.signal }).catch(() => undefined);
  const coming_and_going = (async () => {
    while (!stop.signal.aborted) {
      await wait(WORKS_MS);
      if (stop.signal.aborted) return;
      await upstream?.close();
      upstream = undefined;
      await wait(AWAY_MS);
      upstream = await startUpstream(options);
    }
  })();
  return {
    async close() {
      stop.abort();
      await coming_and_going;
      await upstream?.close();
    },
  };
}

function table(rows: readonly (readonly [what: string, where: string])[]): string {
  return rows.map(([what, where]) => `  ${what.padEnd(12)}${where}`).join('\n');
}

async function start(): Promise<Closable> {
  terminal.data('Starting the gateway, its PostgreSQL and the installed programs ...\n');
  const opened: Closable[] = [];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.close();
  };
  try {
    const { running, missing } = await startPrograms(join(HERE, '../../.appscli/observability'));
    opened.push(...running);
    opened.push(await startMain(), await startUpstream({ api_key: API_KEY, port: SPARE_PORT }));
    const env = { ...process.env, MOCK_KEY: API_KEY };
    const gateway = await startGateway({ config_file: join(HERE, 'gateway.yaml'), stages, env, log, watch: true });
    opened.push(gateway, await startTraffic(gateway));
    const places = running.map(({ what, url }) => [what, url] as const);
    terminal.data(`
${table([['Gateway', gateway.url], ['Metrics', 'http://127.0.0.1:19464/metrics'], ...places])}
${missing.map(({ what, remedy }) => `\nNot here: ${what}.\n  ${remedy}\n`).join('')}
Traffic runs. Every two and a half minutes the upstream main is away for a while. Ctrl-C stops everything.
`);
  } catch (problem) {
    await close();
    throw problem;
  }
  return { close };
}

try {
  process.exitCode = await runUntilSignal(start, log);
} catch (problem) {
  process.exitCode = await reportFailure(problem, terminal, process.env);
}
