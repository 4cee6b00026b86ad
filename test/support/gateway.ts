/** Boots the real gateway inside a test's process, on a database of its own, in front of a scripted upstream. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stdSerializers } from 'pino';
import type { Clock, StageDefinition } from '../../engine/api.ts';
import { systemClock } from '../../engine/base/kit/clock.ts';
import { createLog } from '../../engine/base/kit/log.ts';
import { ConfigurationError } from '../../engine/base/source/configuration-error.ts';
import type { Database } from '../../engine/base/store/database.ts';
import { createToken } from '../../engine/domain/identity/tokens/tokens.ts';
import { startGateway } from '../../engine/edge/gateway/start-gateway.ts';
import { stages } from '../../stages/index.ts';
import { createTestDatabase } from './database.ts';
import { watchLanes } from './lanes.ts';
import { ownDirectory } from './own-directory.ts';
import { until } from './until.ts';

/** The credential the gateway uses upstream; must never be seen by a client. */
export const UPSTREAM_KEY = 'upstream-key-5f3a9c17';

/** A test's fields of an access token; the rest has defaults. */
export interface TokenWish {
  readonly user?: string;
  readonly group?: string;
  readonly name?: string;
  readonly team?: string;
  readonly project?: string;
  readonly expires_at?: Date;
}

/** A running gateway and its surroundings. */
export type TestGateway = Readonly<Awaited<ReturnType<typeof bootGateway>>>;

/** Sections of gateway.yaml that replace the default ones. */
export type ConfigSections = Readonly<Record<string, unknown>>;

const PRICING = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };

/** For an upstream with scripted failures: no retries, and no memory. */
export const ONE_ATTEMPT = { breaker: { mode: 'off' }, retry_budget: { percent: 0, min: 0 } } as const;

/** The entry of the upstream `main`, which speaks Messages. */
export function mainUpstream(base_url: string): ConfigSections {
  return {
    name: 'main',
    type: 'vendor',
    base_url,
    api_key_env: 'TEST_UPSTREAM_KEY',
    supports: { prompt_cache_1h: true, count_tokens: true },
    ...ONE_ATTEMPT,
  };
}

/** A complete gateway.yaml for one upstream. */
export function gatewayConfig(upstream_url: string, sections: ConfigSections = {}): ConfigSections {
  return {
    server: serverSection({}),
    database: { postgres: { url_env: 'TEST_DATABASE_URL' } },
    upstreams: [mainUpstream(upstream_url)],
    models: [
      { id: 'coder-1', family: 'coder', context_window: 200_000, max_output_tokens: 64_000, pricing: PRICING },
      {
        id: 'mapped-1',
        family: 'mapped',
        context_window: 200_000,
        max_output_tokens: 64_000,
        upstream_ids: { main: 'upstream-name@2026' },
        pricing: PRICING,
      },
    ],
    token_groups: [
      { name: 'all', models: ['*'] },
      { name: 'mapped-only', families: ['mapped'] },
    ],
    routing: { default_upstream: 'main', rules: [] },
    ...sections,
  };
}

/** Default `server` section with other timeouts or limits. */
export function serverSection({ timeouts, ...more }: { timeouts?: object; limits?: object; drain?: object }): object {
  return {
    ...{ listen: '127.0.0.1:0', public_url: 'http://127.0.0.1', drain: { accept_seconds: 0 }, ...more },
    // A busy machine may need more than a second for the first event.
    timeouts: { commit_seconds: 60, ...timeouts },
  };
}

/** A log that keeps records as the real one would write them if it blanked nothing out. */
function collectingLog(logs: string[]) {
  const at = (level: string) => (fields: object, text: string) => {
    const err = 'err' in fields && fields.err instanceof Error ? stdSerializers.err(fields.err) : undefined;
    logs.push(JSON.stringify({ level, text, ...fields, ...(err && { err, error: err.stack }) }));
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

const USER = 'dev@example.com';

/** Makes an access token and returns its text. */
export async function makeToken(database: Database, input: TokenWish = {}): Promise<string> {
  const by = { database, clock: systemClock, actor: { kind: 'command', name: 'test' } } as const;
  const { token } = await createToken(by, { user: USER, group: 'all', name: 'test', ...input });
  return token;
}

/** Writes gateway.yaml into a directory that goes with this process. JSON is YAML, so no YAML writer is needed. */
export async function writeConfig(config: ConfigSections): Promise<{ directory: string; config_file: string }> {
  const directory = ownDirectory();
  const config_file = join(directory, 'gateway.yaml');
  await writeFile(config_file, JSON.stringify(config, null, 2));
  return { directory, config_file };
}

/** Boots a gateway; `close` also drops its database, unless `database_url` is given. */
export async function bootGateway(options: {
  upstream_url: string;
  config?: ConfigSections;
  database_url?: string;
  env?: NodeJS.ProcessEnv;
  clock?: Clock;
  /** Logs as the command does: masks secrets, and exports to telemetry. */
  real_log?: boolean;
  /** Stages beside the shipped ones, with more rights than custom ones. */
  stages?: readonly StageDefinition[];
}) {
  const own = options.database_url === undefined ? await createTestDatabase() : undefined;
  const { config_file } = await writeConfig(gatewayConfig(options.upstream_url, options.config));
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    TEST_UPSTREAM_KEY: UPSTREAM_KEY,
    TEST_DATABASE_URL: options.database_url ?? own!.url,
    ...options.env,
  };
  const logs: string[] = [];
  const { clock = systemClock } = options;
  const known = [...stages, ...(options.stages ?? [])];
  const log = options.real_log
    ? createLog({ write: (line) => logs.push(line), format: 'json', debug: true })
    : collectingLog(logs);
  const gateway = await startGateway({ config_file, stages: known, env, log, clock }).catch(async (error) => {
    await own?.drop();
    if (error instanceof ConfigurationError) {
      error.message = error.findings.diagnostics.map(({ code, message }) => `${code} ${message}`).join('\n');
    }
    throw error;
  });
  watchLanes(gateway.database);
  /** As a signal does, where one is named. */
  const close = async (signal?: NodeJS.Signals) => {
    await gateway.close(signal);
    await own?.drop();
  };
  // The database may not be ready yet, and a test may cut its connections at this very moment.
  const firstToken = until('a token is created', () => makeToken(gateway.database).catch(() => undefined));
  const token = await firstToken.catch(async (error) => {
    await close();
    throw error;
  });
  return {
    url: gateway.url,
    database: gateway.database,
    user: USER,
    /** A valid access token of the user in group `all`. */
    token,
    config_file,
    env,
    /** Everything the gateway logged, one JSON text per record. */
    logs: logs as readonly string[],
    newToken: (input?: TokenWish) => makeToken(gateway.database, input),
    /** Loads `config_file` again, as SIGHUP does. */
    reload: () => gateway.reload(),
    close,
  };
}
