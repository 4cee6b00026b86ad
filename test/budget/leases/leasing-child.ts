/**
 * A process that places requests in leases, reports it, and is killed in the same turn: `node leasing-child.ts URL TEAM [LIMIT]`. Whatever
 * would have been forwarded by then must be in the database. With a limit it leases all of it, and asks for more than there is.
 */
import { writeSync } from 'node:fs';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { openDatabase } from '../../../engine/base/store/database.ts';
import { quietLog } from '../../support/store.ts';
import { ask, GREEDY, LeasingLedger, teamLimit, warmUp } from './leasing.ts';

const [url, team, limit] = process.argv.slice(2) as [string, string, string?];
const config = { database: { postgres: { url_env: 'TEST_DATABASE_URL', pool_max: 10 } } } as GatewayConfig;
const env = { TEST_DATABASE_URL: url };
const database = await openDatabase({ config, env, log: quietLog, wait: 'until-ready' });
const ledger = new LeasingLedger(database, limit === undefined ? {} : { policy: GREEDY });
const demands = [teamLimit(team, Number(limit ?? 1_000_000_000))];
await warmUp(ledger, demands, () => ({ request_id: crypto.randomUUID() }));
const placed = Array.from({ length: limit === undefined ? 5 : 60 }, async (_, i) => {
  for (let turn = 0; turn < i % 5; turn++) await new Promise(setImmediate);
  const request_id = crypto.randomUUID();
  const before = ledger.lease_counts!.leased;
  const { decision } = await ask(ledger, demands, { request_id });
  if (decision.exceeded.length > 0) return;
  writeSync(1, `${request_id} ${ledger.lease_counts!.leased > before ? 'leased' : 'waited'}\n`);
});
await Promise.race(placed.slice(-2));
process.kill(process.pid, 'SIGKILL');
