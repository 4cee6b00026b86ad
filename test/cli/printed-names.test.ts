/** Made-up names of outsiders, in everything the command line and the log print. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { createLog } from '../../engine/base/kit/log.ts';
import { printable, printableStyled } from '../../engine/base/kit/text/printable.ts';
import { createProgram } from '../../engine/edge/cli/program.ts';
import { ask, bearer, messagesBody, send } from '../e2e/support/client.ts';
import { auditRecord, ledgerRow } from '../e2e/support/state.ts';
import { useGateway } from '../e2e/support/use-gateway.ts';
import { collectingContext } from './support.ts';

const FORGED = '200  $9999  boss@example.com';
const HOSTILE = `x\x1b[2J\x1b]0;t\x07\x9b31m\u202e\u2066\u2028\u2029\u200b\u200d\ufeff\u{e0041}\x7f\r\t\n${FORGED}\ny`;
/** Written apart from ours on purpose. */
const ACTED_UPON = /[^\P{C}\n\p{Co}\p{Cn}]|[\u2028\u2029]/u;

function assertShowable(text: string, what: string): void {
  const found = ACTED_UPON.exec(text);
  const near = found === null ? '' : JSON.stringify(text.slice(Math.max(0, found.index - 60), found.index + 20));
  assert.equal(found, null, `${what} prints ${JSON.stringify(found?.[0])} in ${near}`);
  assert.doesNotMatch(text, /^200 {2}\$9999/m, `${what} lets a name begin a line`);
}

let request_id: string;

/** Runs a command in this process. Its terminal filters nothing, so that each command must. */
async function run(...words: readonly string[]): Promise<string> {
  const { context, data, info: reported } = collectingContext();
  const program = await createProgram({ ...context, env: gateway.env, finish: () => {} });
  await program.parseAsync([...words, '--config', gateway.config_file], { from: 'user' });
  return data() + reported();
}

/** Replaces every possible text of a table by a hostile one; keeps those that commands need to find and to read a row. */
async function plant(table: string, kept: readonly string[]): Promise<void> {
  const { knex } = gateway.database;
  const columns: { column_name: string; data_type: string }[] = await knex('information_schema.columns')
    .where({ table_schema: 'public', table_name: table })
    .whereIn('data_type', ['text', 'ARRAY', 'jsonb']);
  for (const { column_name, data_type } of columns) {
    if (kept.includes(column_name)) continue;
    const rows = await knex(table).whereNotNull(column_name).select(knex.raw('ctid::text as place'), column_name);
    for (const row of rows) {
      const value = data_type === 'text' ? HOSTILE : spoilt(row[column_name], kept);
      const update = knex(table).whereRaw('ctid = ?::tid', row.place);
      const as_given = data_type === 'jsonb' ? JSON.stringify(value) : value;
      // No outsider can plant what has a closed set of values, either.
      await update.update({ [column_name]: as_given as string }).catch(() => {});
    }
  }
}

function spoilt(value: unknown, kept: readonly string[]): unknown {
  if (typeof value === 'string') return HOSTILE;
  if (Array.isArray(value)) return value.map((part) => spoilt(part, kept));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, kept.includes(key) ? part : spoilt(part, kept)]),
  );
}

const { upstream, gateway } = useGateway({ spend_limits: { defaults: { user_daily_usd: 50 }, rules: [] } });
before(async () => {
  const response = await ask(gateway.url, gateway.token);
  request_id = String(response.headers['x-gateway-request-id']);
  await ledgerRow(gateway.database, request_id);
  await auditRecord(gateway.database, request_id);
  await run('limits', 'set', '--user', 'dev@example.com', '--window', 'day', '--usd', '9', '--reason', 'r');
  await run('limits', 'grant', '--user', 'dev@example.com', '--window', 'day', '--usd', '1', '--expires', '3d');
  const [{ id: principal_id }] = await gateway.database.knex('principals').select('id');
  const now = new Date();
  const times = { created_at: now, checked_at: now, expires_at: new Date(now.getTime() + 1e8) };
  const session = { id: 'ses_1', principal_id, person: '{}', sealed_grant: 's', client: 'c', client_address: 'a' };
  await gateway.database.knex('sessions').insert({ ...session, ...times });
  await plant('ledger', ['request_id', 'scopes', 'provenance', 'usage']);
  await plant('audit_log', ['request_id', 'method', 'path', 'protocol', 'received_at', 'at']);
  await plant('access_tokens', ['id', 'hash', 'principal_id']);
  await plant('limit_settings', ['scope', 'window_kind', 'unit']);
  await plant('limit_grants', ['id', 'scope', 'window_kind', 'unit']);
  await plant('spend_counters', ['scope', 'window_kind', 'unit']);
  await plant('admin_changes', ['action']);
  await plant('sessions', ['id', 'principal_id', 'sealed_grant']);
  await plant('principals', ['id']);
});

describe('names from outside', () => {
  const COMMANDS: readonly string[] = [
    'audit tail --lines 1000',
    'audit tail --lines 1000 --json',
    'audit changes',
    'audit changes --json',
    'usage',
    'usage --by team,model',
    'usage --by upstream_model,token',
    'usage --by user,project,model,upstream --json',
    'usage --by model,user --csv',
    'limits list --user dev@example.com',
    'limits list --json',
    'limits list',
    'tokens list',
    'tokens list --json',
    'sessions list',
    'sessions list --json',
    'users list',
    'users list --json',
    'ledger verify',
    'ledger verify --json',
    'prices check',
    'prices check --json',
  ];
  /** Those that print such names at all, as they were planted. */
  const SHOWING = ['audit tail --lines 1000', 'usage', 'tokens list', 'sessions list', 'users list', 'audit changes'];
  for (const command of COMMANDS) {
    test(`are printed by "${command}" as inert text`, async () => {
      const printed = await run(...command.split(' '));
      if (SHOWING.includes(command)) assert.match(printed, /x\uFFFD\[2J/);
      // CSV has its own line ends (RFC 4180).
      assertShowable(printed.replaceAll('\r\n', '\n'), command);
      const json = command.endsWith('--json');
      if (json && printed.includes(FORGED)) {
        const texts = JSON.stringify(
          printed
            .trim()
            .split(/\n(?=\{)/)
            .map((part) => JSON.parse(part)),
        );
        assert.ok(texts.includes(JSON.stringify(HOSTILE).slice(1, -1)), 'JSON keeps the text itself');
      }
    });
  }

  test('are printed as inert text in place of a command or a value of an option', async () => {
    for (const wrong of [[HOSTILE], ['usage', '--user', HOSTILE]]) {
      const { context, info } = collectingContext();
      await assert.rejects((await createProgram({ ...context, finish: () => {} })).parseAsync(wrong, { from: 'user' }));
      assertShowable(info(), wrong.join(' '));
    }
  });

  test('are printed by explain of a past request, and in errors of commands, as text that does nothing', async () => {
    assertShowable(await run('explain', request_id), 'explain');
    assertShowable(await run('explain', request_id, '--json'), 'explain --json');
    const { reportFailure } = await import('../../engine/edge/cli/main.ts');
    const { context, info } = collectingContext();
    await reportFailure(new Error(HOSTILE), context.terminal, {});
    assertShowable(info(), 'an error');
  });

  for (const format of ['readable', 'json'] as const) {
    test(`are written to a ${format} log as text that does nothing`, () => {
      const lines: string[] = [];
      const log = createLog({ write: (line) => void lines.push(line), format, debug: false });
      log.warn({ user: HOSTILE, list: [HOSTILE], err: new Error(HOSTILE) }, `of ${HOSTILE}`);
      assertShowable(lines.join(''), `a ${format} log`);
      assert.equal(lines.join('').trim().split('\n').length, 1);
    });
  }
});

test('a model with an unprintable name is rejected, on every protocol, and never repeated', async () => {
  const names = [
    'a\x1b[2J',
    'a\nb',
    'a\tb',
    'a\x9bb',
    'a\u202eb',
    'a\u2028b',
    'a\u200bb',
    'a\ufeffb',
    'a\u{e0041}b',
    'a\0b',
  ];
  const paths = ['/v1/messages', '/v1/chat/completions', '/v1/responses', '/v1/messages/count_tokens'];
  upstream.requests.length = 0;
  for (const path of paths) {
    for (const model of names) {
      const more = path === '/v1/responses' ? { model, input: 'x', messages: undefined } : { model };
      const response = await send(gateway.url, { path, headers: bearer(gateway.token), body: messagesBody(more) });
      assert.equal(response.status, 400, response.text);
      assertShowable(response.text, 'the answer');
      assert.match(response.json().error.message, /model.*unprintable/);
    }
  }
  assert.equal(upstream.requests.length, 0);
});

test('an error that names a part of the request shows it escaped', async () => {
  const response = await send(gateway.url, {
    method: 'GET',
    path: '/v1/models/%C2%9B31m%E2%80%AE%1B%5B2J',
    headers: bearer(gateway.token),
  });
  assert.equal(response.status, 404);
  assertShowable(response.text, 'the answer');
});

test('terminal output has its own colours and no other escape sequence', () => {
  const text = `\x1b[1;31merror\x1b[0m ${HOSTILE}\n`;
  assert.ok(printableStyled(text).startsWith('\x1b[1;31merror\x1b[0m x\uFFFD[2J'));
  assert.equal(ACTED_UPON.test(printable(text).replaceAll('\t', '')), false);
});
