/** The dependencies of a gateway as a process: an upstream, a database, and a directory with its configuration. */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createTestDatabase } from '../../support/database.ts';
import {
  type ConfigSections,
  gatewayConfig,
  makeToken,
  type TokenWish,
  UPSTREAM_KEY,
  writeConfig,
} from '../../support/gateway.ts';
import { type Script, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { open } from '../../support/open-database.ts';
import { use } from '../../support/use.ts';
import { type GatewayProcess, startGatewayProcess } from './gateway-process.ts';

interface Setup {
  /** Of gateway.yaml, which is otherwise the default of tests. */
  readonly sections?: (upstream_url: string) => ConfigSections | Promise<ConfigSections>;
  /** By name, beside gateway.yaml. */
  readonly files?: Readonly<Record<string, string>>;
  /** The upstream's response; absent: a complete message. */
  readonly script?: Script;
  /** Makes the database; absent: one of the suite's. */
  readonly database?: () => Promise<string>;
}

export type ProcessScene = Awaited<ReturnType<typeof openProcessScene>>;

/** Sets everything up; `close` ends whatever was started. */
export async function openProcessScene({ sections, files = {}, script, database: make }: Setup = {}) {
  const upstream = await startUpstream(script);
  const { url: database_url, drop } = make ? { url: await make(), drop() {} } : await createTestDatabase();
  const database = await open(database_url);
  const { directory, config_file } = await writeConfig(gatewayConfig(upstream.url, await sections?.(upstream.url)));
  const env: NodeJS.ProcessEnv = { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: database_url };
  const started: GatewayProcess[] = [];
  const write = async (name: string, text: string) => {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), text);
  };
  for (const [name, text] of Object.entries(files)) await write(name, text);
  return {
    upstream,
    database,
    database_url,
    directory,
    config_file,
    /** Of the gateways that are started from now on. */
    env,
    /** Writes a file beside gateway.yaml. */
    write,
    newToken: (input?: TokenWish) => makeToken(database, input),
    async start(...more_arguments: string[]): Promise<GatewayProcess> {
      const gateway = await startGatewayProcess(config_file, env, more_arguments);
      started.push(gateway);
      return gateway;
    },
    async close() {
      for (const gateway of started) await gateway.end('SIGKILL');
      await database.close();
      await drop();
      await upstream.close();
    },
  };
}

/** Gives it to the tests of a file. */
export const useProcessScene = (setup?: Setup): ProcessScene => use(() => openProcessScene(setup));
