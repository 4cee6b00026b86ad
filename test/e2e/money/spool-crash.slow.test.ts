import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import {
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
  type Script,
} from '../../support/model-provider/scripted-upstream.ts';
import { randomOf } from '../../support/random.ts';
import { IS_DEEP, times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { standIn, use } from '../../support/use.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { startMortalPostgres } from '../support/fleet.ts';
import { useProcessScene } from '../support/process-scene.ts';
import { ledgerRows, nothingReserved, spoolFiles } from '../support/state.ts';

const CALLERS = IS_DEEP ? 30 : 12;
/** How the database fails, and how often. */
const OUTAGES = (['cleanly', 'crash'] as const).flatMap((how) => Array.from({ length: times(1) }, () => how));

const defaults = { user_daily_usd: 100, team_monthly_usd: 10_000 };
const postgres = use(startMortalPostgres);
const scene = useProcessScene({
  database: () => postgres.createDatabase(),
  sections: () => ({
    server: { listen: '127.0.0.1:0', public_url: 'http://127.0.0.1' },
    spend_limits: { defaults, on_exceeded: 'deny', on_store_error: 'allow' },
  }),
});
const upstream = standIn(() => scene.upstream);
const database = standIn(() => scene.database);

/** How much of its response a client gets: some part, or, for every third, all of it. */
const partOf = (caller: string) => Math.min(1, randomOf(`answer to ${caller}`)() * 1.5);

/** Responds in part, so that a crash meets requests at every stage. */
const answerPartly: Script = ({ received, res }) => {
  const part = partOf(String(received.headers['x-caller']));
  if (received.body.includes('"stream":true')) {
    const events = messageEvents();
    res.writeHead(200, [...EVENT_STREAM]);
    for (const event of events.slice(0, Math.floor(part * events.length))) res.write(event);
  } else if (part === 1) {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.write(JSON.stringify(message()));
  }
  if (part === 1) res.end();
};

test('a gateway killed while its database is away leaves exactly one row for each request that the upstream saw', async () => {
  let gateway = await scene.start();
  for (const [round, how] of OUTAGES.entries()) {
    const callers = await Promise.all(
      Array.from({ length: CALLERS }, async (_, index) => {
        const user = `caller-${round}-${index}@example.com`;
        return { user, token: await scene.newToken({ user, team: 'crashers' }), stream: index % 2 === 0 };
      }),
    );
    const { url } = gateway;
    const served = new Set<string>();
    const call = async ({ user, token, stream }: (typeof callers)[number]) => {
      const body = messagesBody({ stream });
      const { status } = await send(url, { headers: bearer(token, ['x-caller', user]), body });
      assert.equal(status, 200);
      served.add(user);
    };
    const seen = () => upstream.requests.map(({ headers }) => String(headers['x-caller']));
    // A new caller is unidentifiable without the database. Each of these requests has a row of its own.
    upstream.script = answerJson(message());
    for (let again = 0; again < 2; again++) await Promise.all(callers.map(call));
    await nothingReserved(database);
    await postgres.stop(how);
    upstream.requests.length = 0;
    served.clear();
    upstream.script = answerPartly;

    // The first are as far as they get, the others on their way, when some of these are out.
    const [first, others] = [callers.slice(0, CALLERS / 2), callers.slice(CALLERS / 2)];
    const calls = first.map((caller) => call(caller).catch(() => undefined));
    await until('the first are out, with all their responses', () =>
      first.every(({ user }) => (partOf(user) === 1 ? served.has(user) : seen().includes(user))),
    );
    calls.push(...others.map((caller) => call(caller).catch(() => undefined)));
    const out = 1 + Math.floor(randomOf(`round ${round}`)() * others.length);
    await until(`${out} of the others are out`, () => seen().length >= first.length + out);
    await gateway.end('SIGKILL');
    await Promise.all(calls);
    // It starts before its database does.
    const starting = scene.start();
    await postgres.start();
    gateway = await starting;

    const spool = join(scene.directory, '.appscli', 'spool');
    await until('the spool is empty', () => spoolFiles(spool).length === 0);
    await nothingReserved(database);
    assert.equal(new Set(seen()).size, seen().length);
    const rows = await ledgerRows(database);
    for (const { user } of callers) {
      const own = rows.filter(({ user_email }) => user_email === user);
      const during = own.length - 2;
      // One may have been noted, and the gateway ended before it went out.
      const is_right = during === 1 || (during === 0 && !seen().includes(user));
      assert.ok(is_right, `${user}, killed when ${out} were out: ${during} rows`);
      for (const { cost_nano_usd } of own) assert.ok(cost_nano_usd > 0, 'a request with an unknown end is not free');
    }
  }
  const { differences, repeated, uncounted, attempts, left } = await verifyLedger({ database, clock: systemClock });
  for (const found of [differences, repeated, uncounted, attempts, left])
    assert.deepEqual(found, { total: 0, first: [] });
});
