/** The two roles of the guide: its SQL, and a gateway that runs with no more rights than it grants. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { findExistingHome, readServerState } from '../../../engine/base/store/embedded-postgres.ts';
import { ROLES_SQL } from '../../../engine/base/store/migrate.ts';
import { ADMIN_OPERATIONS } from '../../../engine/edge/admin/description.ts';
import { cli } from '../../cli/support.ts';
import { signInToConsole } from '../../support/console.ts';
import { runOn } from '../../support/database.ts';
import { gatewayConfig, serverSection, type TestGateway, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import { startIdentityProvider } from '../../support/identity/identity-provider.ts';
import { askForToken, bootSignIn, refreshWith, signIn } from '../../support/identity/sign-in.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { makeSuiteDirectory, startSuiteServer } from '../../support/postgres.ts';
import { databaseClock, SEARCH_PATH } from '../../support/suite-clock.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { ask } from '../support/client.ts';

const SQL = readFileSync(new URL(`../../../${ROLES_SQL}`, import.meta.url), 'utf8');
const OWNER = 'gateway_owner';
const RUN = 'gateway_run';

/** A server of its own: roles are its own as well, and only a superuser makes them. */
let server: Awaited<ReturnType<typeof startSuiteServer>>;
let admin_url: string;
let config: Awaited<ReturnType<typeof writeConfig>>;
let env: NodeJS.ProcessEnv;
let gateway: TestGateway | undefined;

/** The URL of the database for a role. */
function as(role: string): string {
  const url = new URL(server.url);
  url.pathname = '/gateway';
  url.username = role;
  url.password = `password-of-${role}`;
  return url.href;
}

/** Admits the superuser, who has no password. */
async function openServer(): Promise<void> {
  const directory = await makeSuiteDirectory();
  server = await startSuiteServer(directory);
  const { cluster } = findExistingHome(join(directory, 'postgres'))!;
  const rules = join(cluster, 'pg_hba.conf');
  writeFileSync(rules, `host all postgres 127.0.0.1/32 trust\n${readFileSync(rules, 'utf8')}`);
  process.kill((readServerState(cluster) as { pid: number }).pid, 'SIGHUP');
  const postgres = new URL(as('postgres'));
  postgres.pathname = '/postgres';
  await until('the superuser is admitted', () =>
    runOn(postgres.href, 'create database gateway').then(
      () => true,
      () => false,
    ),
  );
  admin_url = as('postgres');
  await runOn(admin_url, databaseClock());
}

before(() => openServer());
const provider = use(startIdentityProvider);
const upstream = use(startUpstream);
before(async () => {
  env = { ...process.env, RUN_URL: as(RUN), OWNER_URL: as(OWNER), TEST_UPSTREAM_KEY: UPSTREAM_KEY };
  const postgres = { url_env: 'RUN_URL' };
  const limits = { defaults: { user_daily_usd: 50 }, lease: 'on' };
  config = await writeConfig(
    gatewayConfig(upstream.url, { server: serverSection({}), database: { postgres }, spend_limits: limits }),
  );
});
after(async () => {
  await gateway?.close();
  await server?.close();
});

/** Runs the SQL of the guide, and sets a password for both roles, and the clock of the tests behind the SQL. */
async function paste(): Promise<void> {
  await runOn(admin_url, SQL);
  const path = SEARCH_PATH.replace('"$user", public', 'gateway');
  for (const role of [OWNER, RUN]) {
    await runOn(
      admin_url,
      `alter role ${role} password 'password-of-${role}'; alter role ${role} set search_path = ${path}`,
    );
  }
}

async function rowsOf(sql: string): Promise<object[]> {
  const client = new pg.Client({ connectionString: admin_url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

const run = (...words: string[]) => cli([...words, '--config', config.config_file], { env });

/** The output of `check --live`, as one line: the terminal's is broken at 80 columns. */
const checkLive = async () => (await run('check', '--live')).stdout.replace(/\s+/g, ' ');

test('the SQL of the guide, a migration as the owner, and everything a gateway does as the other role', async () => {
  const none = await run('check', '--live');
  assert.match(none.stdout + none.stderr, /the login was rejected/, 'before the SQL');

  await paste();
  // As the schema public has it since PostgreSQL 14 or before.
  await runOn(admin_url, 'grant create on schema gateway to public');
  await paste();

  // Behind: neither the gateway nor `check` tries to migrate, and both say who has to.
  const early = await run('gateway');
  assert.equal(early.exit_code, 69, early.stderr);
  assert.match(early.stderr, /gateway_run may not change it; run `appscli migrate`/);
  assert.match(await checkLive(), /gateway_run may not change it/);
  const refused = await run('migrate');
  assert.match(refused.stderr, /gateway_run may not change it/);

  const migrated = await run('migrate', '--url-env', 'OWNER_URL');
  assert.equal(migrated.exit_code, 0, migrated.stderr);
  assert.match(migrated.stdout, /Applied 0001_initial_\w{8}\.[\s\S]*The schema is up to date\./);
  assert.match((await run('migrate', '--url-env', 'OWNER_URL')).stdout, /^The schema is up to date\.$/m);
  assert.match(await checkLive(), /schema up to date/);

  // A right that is missing is named by `check`, and by the start.
  await runOn(admin_url, `revoke insert on gateway.ledger from ${RUN}`);
  assert.match(await checkLive(), /gateway_run lacks insert on ledger.* grant insert on ledger to gateway_run/);
  assert.match((await run('gateway')).stderr, /gateway_run lacks insert on ledger/);
  await paste();
  const open = `select c.relname from pg_class c where c.relnamespace = 'gateway'::regnamespace and c.relname ~ '^(ledger|audit_log|admin_changes)'
    and c.relkind in ('r', 'p') and (has_table_privilege('${RUN}', c.oid, 'update') or has_table_privilege('${RUN}', c.oid, 'delete'))`;
  assert.deepEqual(await rowsOf(open), [], 'pasting the SQL again opens nothing');

  await demandNothingRefused();
  await demandNoChange();
});

/** Lives a day of a gateway as the role that runs: no statement of it may lack a right. */
async function demandNothingRefused(): Promise<void> {
  gateway = await bootSignIn({
    provider,
    upstream_url: upstream.url,
    database_url: as(RUN),
    auth: { admin_groups: ['admins'], personal_tokens: { suspend_after_days: 7 } },
    config: {
      spend_limits: {
        defaults: { user_daily_usd: 50 },
        rules: [{ name: 'parallel', scope: 'user', concurrency: 8 }],
        lease: 'on',
      },
    },
  });
  const { url, token } = gateway;
  for (let n = 0; n < 20; n++) assert.equal((await ask(url, token)).status, 200);
  const person = await signIn(url, 'anna');
  assert.equal((await ask(url, person.access_token)).status, 200);
  assert.equal((await askForToken(url, refreshWith(person.refresh_token))).status, 200);
  const console_person = await signInToConsole(url, 'anna');
  for (const { name, method, path, path_names, file_type } of ADMIN_OPERATIONS.values()) {
    if (method !== 'GET' || path_names.length > 0 || file_type === 'text/event-stream') continue;
    const { status, body } = await console_person.call('GET', path);
    assert.ok(status < 500, `${name}: ${status} ${JSON.stringify(body)}`);
  }

  const commands = `
    tokens create --user eve@example.com --group all --name laptop
    tokens list
    service-tokens create --name robot --scope usage:read
    limits set --user eve@example.com --window day --usd 3 --reason test
    limits list --user eve@example.com
    limits grant --user eve@example.com --window day --usd 3 --expires 2h --reason test
    upstreams drain main --reason test
    upstreams resume main
    usage --since 7d
    audit tail
    audit changes
    limits clear --user eve@example.com --window day
    limits list
    tokens rotate --user eve@example.com --name laptop
    tokens revoke --user eve@example.com --name laptop
    service-tokens list
    users reassign eve@example.com --tokens keep
    policy list
    sessions explain eve@example.com
    sessions end --user anna@example.com --with-tokens
    ledger verify
    ledger sum
    ledger reprice --since 2026-11-01 --yes
    sessions list
    users list
    config loads`;
  for (const command of commands.trim().split(/\n\s*/)) {
    const { exit_code, stderr } = await run(...command.split(' '));
    assert.ok(exit_code === 0, `${command}: ${exit_code} ${stderr}`);
    assert.doesNotMatch(stderr, /permission denied/);
  }
  await until('records of the requests are written', async () => {
    const { stdout } = await run('audit', 'tail', '-n', '100');
    return stdout.includes('anna');
  });
  await demandMonths();
  await gateway.close();
  assert.doesNotMatch(gateway.logs.join('\n'), /permission denied|must be owner/);
  gateway = undefined;
}

/** Months are made and dropped, and not at any time that the caller likes. */
async function demandMonths(): Promise<void> {
  await runOn(as(OWNER), `select ensure_partition('ledger', 'settled_at', '2020-01-01')`);
  const client = new pg.Client({ connectionString: as(RUN) });
  await client.connect();
  try {
    await client.query('select make_months(null)');
    const { rows } = await client.query("select dropped from drop_oldest_month('ledger', 24, null)");
    assert.deepEqual(rows, [{ dropped: 'ledger_2020_01' }]);
    const early = await client.query("select dropped from drop_oldest_month('ledger', 0, '2099-01-01')");
    assert.deepEqual(early.rows, [], 'months that are not over stay');
    await assert.rejects(client.query("select * from drop_oldest_month('principals', 2, null)"), /are not dropped/);
  } finally {
    await client.end();
  }
}

/** Arguments that make a request cost a nano-USD more, and the change made first. */
const ONE_MORE = `'2026-01-01', '2027-01-01', (
  select jsonb_build_array(jsonb_build_object('request_id', request_id, 'was', sum(cost_nano_usd), 'cost', sum(cost_nano_usd) + 1))
  from ledger group by request_id limit 1)`;
const FIRST_CHANGE = "(select min(id) from admin_changes where action <> 'ledger.reprice')";

/** What the role that runs must not do, even if the gateway is compromised. */
async function demandNoChange(): Promise<void> {
  const client = new pg.Client({ connectionString: as(RUN) });
  await client.connect();
  const partition = await client.query("select min(c.relname) as name from pg_class c where relname ~ '^audit_log_2'");
  const FORBIDDEN = [
    'drop table ledger',
    'truncate spend_counters',
    'truncate audit_log',
    'alter table principals add x integer',
    'create table mine (id integer)',
    'create function mine() returns integer language sql as $f$ select 1 $f$',
    'drop function make_months',
    'update ledger set cost_nano_usd = 0',
    'delete from ledger',
    'update audit_log set record = null',
    'delete from audit_log',
    `delete from ${partition.rows[0].name}`,
    `insert into ${partition.rows[0].name} select * from audit_log`,
    'delete from admin_changes',
    "update admin_changes set actor = 'nobody'",
    'delete from schema_migrations',
    "select ensure_partition('ledger', 'settled_at', '2030-01-01')",
    `select * from reprice_batch(${ONE_MORE}, ${FIRST_CHANGE}, 'operator', 'nobody', 'nothing', null)`,
  ];
  try {
    for (const sql of FORBIDDEN) {
      await assert.rejects(client.query(sql), { message: /permission denied|must be owner|is none of this run/ }, sql);
    }
  } finally {
    await client.end();
  }
}
