/** A gateway with sign-in that keeps every record unmasked, and the secrets of its configuration. */
import { rm } from 'node:fs/promises';
import { type RunningGateway, startGateway } from '../../../engine/edge/gateway/start-gateway.ts';
import { stages } from '../../../stages/index.ts';
import { createTestDatabase } from '../../support/database.ts';
import { freePort } from '../../support/free-port.ts';
import { gatewayConfig, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { startCollector, type TestCollector } from '../../support/telemetry/collector.ts';
import { until } from '../../support/until.ts';
import { type MovableClock, movableClock } from '../support/movable-clock.ts';
import { recordingLog } from './secret-search.ts';

const SIGNING_KEY = 'planted-signing-key-7be21c90d5f84a36';
const PREVIOUS_KEY = 'planted-previous-key-1f6d3b82a94c57e0';

/** anna administers, ben is in no allowed group, the address of cleo is not verified. */
const PEOPLE = {
  anna: { email: 'anna@example.com', email_verified: true, groups: ['engineering', 'admins'] },
  ben: { email: 'ben@example.com', email_verified: true, groups: ['marketing'] },
  cleo: { email: 'cleo@example.com', email_verified: false, groups: ['engineering'] },
  dan: { email: 'dan@example.com', email_verified: true, groups: ['engineering'] },
};

/** A running gateway and its surroundings. */
export interface PlantedGateway {
  readonly gateway: RunningGateway;
  readonly provider: TestIdentityProvider;
  /** The telemetry output. */
  readonly collector: TestCollector;
  readonly clock: MovableClock;
  readonly config_file: string;
  readonly env: NodeJS.ProcessEnv;
  /** Every log record, with nothing blanked out. */
  readonly logs: readonly string[];
  /** By kind. */
  readonly secrets: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

function authOf({ issuer, client_id }: TestIdentityProvider): object {
  return {
    oidc: {
      issuer_url: issuer,
      client_id,
      client_secret_env: 'TEST_CLIENT_SECRET',
      allowed_groups: ['engineering'],
    },
    session: {
      signing_key_env: 'TEST_SIGNING_KEY',
      previous_signing_keys: [{ key_env: 'TEST_PREVIOUS_KEY' }],
      token_group: 'all',
    },
    admin_groups: ['admins'],
    limits: { device_authorizations: 1000, code_submissions: 1000 },
  };
}

/** Boots it on a database of its own. */
export async function bootPlanted(): Promise<PlantedGateway> {
  const provider = await startIdentityProvider({ people: PEOPLE });
  const upstream = await startUpstream();
  const collector = await startCollector();
  const database = await createTestDatabase();
  const port = await freePort();
  const public_url = `http://127.0.0.1:${port}`;
  provider.register(`${public_url}/oauth/callback`);
  const server = { listen: `127.0.0.1:${port}`, public_url };
  const telemetry = {
    otlp: { endpoint: collector.endpoint },
    metrics: { interval_seconds: 1 },
    caller: 'pseudonym',
  };
  const config = await writeConfig(gatewayConfig(upstream.url, { server, auth: authOf(provider), telemetry }));
  const env = {
    ...process.env,
    TEST_UPSTREAM_KEY: UPSTREAM_KEY,
    TEST_DATABASE_URL: database.url,
    TEST_CLIENT_SECRET: provider.client_secret,
    TEST_SIGNING_KEY: SIGNING_KEY,
    TEST_PREVIOUS_KEY: PREVIOUS_KEY,
    OTEL_BSP_SCHEDULE_DELAY: '50',
  };
  const logs: string[] = [];
  const clock = movableClock();
  const log = recordingLog(logs);
  const gateway = await startGateway({ config_file: config.config_file, stages, env, log, clock });
  await until('the database is ready', async () => (await gateway.database.check()).ok);
  return {
    gateway,
    provider,
    collector,
    clock,
    config_file: config.config_file,
    env,
    logs,
    secrets: {
      'the client secret': provider.client_secret,
      'the signing key': SIGNING_KEY,
      'the previous signing key': PREVIOUS_KEY,
      "the upstream's key": UPSTREAM_KEY,
      'the database password': new URL(database.url).password,
    },
    async close() {
      await gateway.close();
      await database.drop();
      await upstream.close();
      await collector.close();
      await provider.close();
      await rm(config.directory, { recursive: true, force: true });
    },
  };
}
