import { randomUUID } from 'node:crypto';
import { before } from 'node:test';
import pg from 'pg';
import { createProject } from '../../load/support/project.ts';
import { createTestDatabase } from '../../support/database.ts';
import { type ConfigSections, gatewayConfig } from '../../support/gateway.ts';
import { use } from '../../support/use.ts';

export type Fields = Readonly<Record<string, unknown>>;

export const REFUSED = { upstream: null, cost_usd: undefined, duration_ms: 3, sends: undefined } as const;

export interface AuditBench {
  readonly config_file: string;
  readonly env: NodeJS.ProcessEnv;
  readonly client: pg.Client;
  /** Writes a record as the stage `audit` does; its id begins with a letter that tests name it by. */
  write(letter: string, hours_ago: number, fields: Fields): Promise<void>;
}

export function auditBench(sections: ConfigSections): AuditBench {
  const bench = {} as { -readonly [Key in keyof AuditBench]: AuditBench[Key] };
  const database = use(createTestDatabase, ({ drop }) => drop());
  bench.client = use(
    async () => {
      const client = new pg.Client({ connectionString: database.url });
      await client.connect();
      return client;
    },
    (client) => client.end(),
  );
  before(() => {
    const text = JSON.stringify(gatewayConfig('http://127.0.0.1:9', sections), null, 2);
    const config_file = createProject({ 'gateway.yaml': text }).path('gateway.yaml');
    Object.assign(bench, { config_file, env: { ...process.env, TEST_DATABASE_URL: database.url } });
  });
  bench.write = async (letter, hours_ago, fields) => {
    const request_id = `${letter}${randomUUID().slice(1)}`;
    const at_ms = Date.now() - hours_ago * 3_600_000;
    const shared = {
      ...{ request_id, method: 'POST', path: '/v1/messages', protocol: 'messages', pipeline: 'messages' },
      ...{ model: 'coder-1', status: 200, error: null, upstream: 'main', route_rule: 'default', spend_rule: null },
      ...{ aborted: false, duration_ms: 310, cost_usd: 0.0042, sends: 1, losses: [], principal: fields.user ?? null },
      received_at: new Date(at_ms).toISOString(),
    };
    const text = JSON.stringify([{ at_ms, request_id, record: { ...shared, ...fields } }]);
    await bench.client.query('select audit_append($1::jsonb, false)', [text]);
  };
  return bench;
}
