/** Examples as a user starts them who has this machine only. */
import assert from 'node:assert/strict';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunningGateway, startGateway } from '../../engine/edge/gateway/start-gateway.ts';
import { stages } from '../../stages/index.ts';
import { collectingLog } from '../cli/support.ts';
import { createTestDatabase } from '../support/database.ts';
import { REPOSITORY } from '../support/readme-blocks.ts';
import { until } from '../support/until.ts';

/** Whatever each variable that a file names is for. */
export function variablesOf(gateway_yaml: string): NodeJS.ProcessEnv {
  const named = [...gateway_yaml.matchAll(/(\w+)_env: (\w+)/g)];
  return Object.fromEntries(
    named.map(([, what, name]) => [name, `${what === 'headers' ? 'authorization=' : ''}not-needed`]),
  );
}

/** An example on this machine. */
export interface Example {
  /** Where `examples/` is, and nothing else of the repository. */
  readonly root: string;
  /** A copy of its directory, beside those of all others. */
  readonly directory: string;
  readonly config_file: string;
  readonly env: NodeJS.ProcessEnv;
  close(): Promise<void>;
}

/**
 * Copies an example, on a database of the test's own.
 * @param moves what of its gateway.yaml is another thing here; each text stands there once.
 */
export async function copyExample(
  name: string,
  moves: readonly (readonly [string, string])[] = [],
  env: NodeJS.ProcessEnv = {},
): Promise<Example> {
  const root = await mkdtemp(join(tmpdir(), 'appscli-example-'));
  // One may name a file of another.
  await cp(join(REPOSITORY, 'examples'), join(root, 'examples'), { recursive: true });
  const { url: DATABASE_URL, drop } = await createTestDatabase();
  const directory = join(root, 'examples', name);
  const config_file = join(directory, 'gateway.yaml');
  const shipped = await readFile(config_file, 'utf8');
  for (const [from] of moves) assert.equal(shipped.split(from).length, 2, `"${from}" occurs once`);
  const moved = moves.reduce((text, [from, to]) => text.replace(from, to), shipped);
  const postgres = 'postgres: { url_env: DATABASE_URL }';
  const text = moved
    .replace('listen: 127.0.0.1:8080', 'listen: 127.0.0.1:0')
    .replace('127.0.0.1:9464', '127.0.0.1:0')
    // No collector listens there; that must not keep a gateway from serving.
    .replaceAll('https://otel.example.com', 'http://127.0.0.1:9')
    .replace(/embedded: \{.*\}/, postgres);
  await writeFile(config_file, /^database:/m.test(text) ? text : `${text}\ndatabase:\n  ${postgres}\n`);
  return {
    root,
    directory,
    config_file,
    env: { ...process.env, ...variablesOf(shipped), DATABASE_URL, ...env },
    close: async () => {
      await drop();
      await rm(root, { recursive: true, force: true });
    },
  };
}

/** Starts an example in this process. */
export async function startExample(
  ...input: Parameters<typeof copyExample>
): Promise<Example & { readonly gateway: RunningGateway; readonly lines: readonly Record<string, unknown>[] }> {
  const example = await copyExample(...input);
  const { log, lines } = collectingLog();
  const { config_file, env } = example;
  const gateway = await startGateway({ config_file, stages, env, log });
  await until('the database is ready', async () => (await gateway.database.check()).ok);
  // A gateway that is not closed yet writes to its directory.
  return { ...example, gateway, lines, close: () => gateway.close().then(example.close) };
}
