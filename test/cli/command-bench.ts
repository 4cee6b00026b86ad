/** The commands as users and programs run them: the real program on a real database, beside a running gateway. */
import assert from 'node:assert/strict';
import { before } from 'node:test';
import { ask } from '../e2e/support/client.ts';
import { createProject } from '../load/support/project.ts';
import { createTestDatabase } from '../support/database.ts';
import { bootGateway, gatewayConfig, type TestGateway, type TokenWish } from '../support/gateway.ts';
import { startUpstream } from '../support/model-provider/scripted-upstream.ts';
import { until } from '../support/until.ts';
import { use } from '../support/use.ts';
import { cli, type Ended, type RunningCommand, startCli } from './support.ts';

export interface CommandBench {
  readonly gateway: TestGateway;
  readonly database_url: string;
  readonly config_file: string;
  readonly env: NodeJS.ProcessEnv;
  run(...arguments_: readonly string[]): Promise<Ended>;
  succeed(...arguments_: readonly string[]): Promise<Ended>;
  start(...arguments_: readonly string[]): RunningCommand;
  newToken(input: TokenWish): Promise<string>;
  /** Sends a request and waits for its audit record and its ledger row; gives its id. */
  request(token: string): Promise<string>;
}

export function commandBench(): CommandBench {
  const bench = {} as { -readonly [Key in keyof CommandBench]: CommandBench[Key] };
  const upstream = use(startUpstream);
  const database = use(createTestDatabase, ({ drop }) => drop());
  bench.gateway = use(() => bootGateway({ upstream_url: upstream.url, database_url: database.url }));
  before(() => {
    const project = createProject({ 'gateway.yaml': JSON.stringify(gatewayConfig(upstream.url), null, 2) });
    // No upstream key: only the gateway itself needs one.
    const env = { ...process.env, TEST_DATABASE_URL: database.url };
    Object.assign(bench, { database_url: database.url, config_file: project.path('gateway.yaml'), env });
  });
  bench.run = (...arguments_) => cli([...arguments_, '--config', bench.config_file], { env: bench.env });
  bench.start = (...arguments_) => startCli([...arguments_, '--config', bench.config_file], { env: bench.env });
  bench.newToken = (input) => bench.gateway.newToken(input);
  bench.succeed = async (...arguments_) => {
    const ended = await bench.run(...arguments_);
    assert.equal(ended.exit_code, 0, ended.stderr);
    return ended;
  };
  bench.request = async (token) => {
    const { gateway } = bench;
    const response = await ask(gateway.url, token);
    assert.equal(response.status, 200, response.text);
    const request_id = String(response.headers['x-gateway-request-id']);
    for (const table of ['audit_log', 'ledger']) {
      const rows = () => gateway.database.knex(table).where({ request_id });
      await until(`the request is in ${table}`, async () => (await rows()).length === 1);
    }
    return request_id;
  };
  return bench;
}
