/**
 * Starts the installed programs: a collector, Prometheus, Grafana.
 * @module
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdirSync, openSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const HERE = import.meta.dirname;

/** A program that runs beside the gateway. */
export interface Program {
  readonly what: string;
  /** Its address for browsers. */
  readonly url: string;
  close(): Promise<void>;
}

/** A program that is not installed. */
export interface Missing {
  readonly what: string;
  readonly remedy: string;
}

/** Path from a variable, else of the first installed program of these names. */
function find(variable: string, names: readonly string[]): string | undefined {
  const named = process.env[variable];
  if (named !== undefined) return named;
  const folders = (process.env.PATH ?? '').split(delimiter);
  return names
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** Whether the address responds within some seconds. */
async function answers(url: string, child: ChildProcess): Promise<boolean> {
  for (let tries = 0; tries < 100 && child.exitCode === null; tries++) {
    if ((await fetch(url).catch(() => undefined)) !== undefined) return true;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return false;
}

async function run(
  what: string,
  path: string,
  args: readonly string[],
  place: { readonly url: string; readonly log: string; readonly env?: NodeJS.ProcessEnv; readonly cwd?: string },
): Promise<Program> {
  const out = openSync(place.log, 'w');
  const child = spawn(path, args, {
    stdio: ['ignore', out, out],
    // Ctrl-C in a terminal must reach the gateway first, which still has telemetry to send.
    detached: true,
    env: { ...process.env, ...place.env },
    ...(place.cwd !== undefined && { cwd: place.cwd }),
  });
  const exited = once(child, 'exit').catch(() => undefined);
  process.once('exit', () => child.kill('SIGTERM'));
  const close = async () => {
    child.kill('SIGTERM');
    await exited;
  };
  if (await answers(place.url, child)) return { what, url: place.url, close };
  await close();
  throw new Error(`${what} (${path}) does not respond at ${place.url}; see ${place.log}`);
}

/** Runs the installed programs, and prints how to get the others. @param data directory for their files */
export async function startPrograms(data: string): Promise<{ running: Program[]; missing: Missing[] }> {
  mkdirSync(data, { recursive: true });
  const log = (name: string) => join(data, `${name}.log`);
  const running: Program[] = [];
  const missing: Missing[] = [];

  const collector = find('OTELCOL', ['otelcol-contrib']);
  if (collector === undefined) {
    missing.push({
      what: 'OpenTelemetry Collector',
      remedy:
        'install otelcol-contrib from https://opentelemetry.io/docs/collector/installation, or name it: OTELCOL=/path/to/otelcol-contrib',
    });
  } else {
    const env = { TELEMETRY_FILE: join(data, 'telemetry.jsonl') };
    const args = ['--config', join(HERE, 'collector.yaml')];
    running.push(
      await run('Collector', collector, args, { url: 'http://127.0.0.1:19889/metrics', log: log('collector'), env }),
    );
  }

  const prometheus = find('PROMETHEUS', ['prometheus']);
  if (prometheus === undefined) {
    missing.push({
      what: 'Prometheus',
      remedy:
        'apt-get install prometheus, or https://prometheus.io/download, or name it: PROMETHEUS=/path/to/prometheus',
    });
  } else {
    // Collector and gateway offer the same series: scrape one of them.
    const config = join(HERE, 'prometheus', collector === undefined ? 'scrape-gateway.yaml' : 'scrape-collector.yaml');
    const args = [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(data, 'prometheus')}`,
      '--web.listen-address=127.0.0.1:19090',
    ];
    running.push(await run('Prometheus', prometheus, args, { url: 'http://127.0.0.1:19090', log: log('prometheus') }));
  }

  const grafana = find('GRAFANA', ['grafana']);
  const home = process.env.GRAFANA_HOME ?? '/usr/share/grafana';
  if (grafana === undefined) {
    missing.push({
      what: 'Grafana',
      remedy:
        'https://grafana.com/docs/grafana/latest/setup-grafana/installation, or name it: GRAFANA=/path/to/grafana; in one that runs elsewhere import the files of grafana/dashboards',
    });
  } else {
    const env = {
      DASHBOARDS: join(HERE, 'grafana/dashboards'),
      GF_PATHS_PROVISIONING: join(HERE, 'grafana/provisioning'),
      GF_PATHS_DATA: join(data, 'grafana'),
      GF_PATHS_LOGS: join(data, 'grafana'),
      GF_SERVER_HTTP_ADDR: '127.0.0.1',
      GF_SERVER_HTTP_PORT: '19300',
      GF_AUTH_ANONYMOUS_ENABLED: 'true',
      GF_ANALYTICS_REPORTING_ENABLED: 'false',
      GF_ANALYTICS_CHECK_FOR_UPDATES: 'false',
    };
    const args = ['server', '--homepath', home];
    running.push(
      await run('Grafana', grafana, args, { url: 'http://127.0.0.1:19300', log: log('grafana'), env, cwd: home }),
    );
  }
  return { running, missing };
}
