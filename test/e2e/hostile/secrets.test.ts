import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { cli } from '../../cli/support.ts';
import { serverSection, UPSTREAM_KEY } from '../../support/gateway.ts';
import { REACHED_SECONDS } from '../../support/limits.ts';
import {
  answerBytes,
  answerChunks,
  answerJson,
  hang,
  message,
  messageEvents,
  reset,
} from '../../support/model-provider/scripted-upstream.ts';
import { startRelay, type TcpRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { ask, bearer, messagesBody, open, send, sendRaw } from '../support/client.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { useProcessScene } from '../support/process-scene.ts';
import { auditRows } from '../support/state.ts';
import { createSecretSearch, rowsAsText } from './secret-search.ts';

const PROMPT = 'the-merger-closes-on-friday';
const WRONG_TOKEN = `gw_${'wrongwrong'.repeat(5)}`;
const WRONG_KEY = 'sk-somebody-elses-key-9d2f';

let relay: TcpRelay;
let gateway: GatewayProcess;
let token: string;

const scene = useProcessScene({
  sections: () => ({
    server: serverSection({
      timeouts: {
        first_byte_seconds: REACHED_SECONDS,
        non_streaming_first_byte_seconds: REACHED_SECONDS,
        idle_seconds: REACHED_SECONDS,
      },
    }),
  }),
});
before(async () => {
  const relayed = new URL(scene.database_url);
  relay = await startRelay(Number(relayed.port));
  relayed.port = String(relay.port);
  scene.env.TEST_DATABASE_URL = relayed.href;
  gateway = await scene.start();
  token = await scene.newToken();
});
after(() => relay?.stop());

const search = createSecretSearch();

const PROMPTED = { messages: [{ role: 'user', content: PROMPT }], system: PROMPT };

/** Takes every path that could reveal too much, and returns all responses. */
async function exercise(): Promise<string[]> {
  const { upstream, database, database_url } = scene;
  const said: string[] = [];
  const hear = async (response: Promise<{ raw_headers: readonly string[]; text: string }>) => {
    const { raw_headers, text } = await response.catch((error) => ({ raw_headers: [], text: String(error) }));
    said.push(raw_headers.join('\n'), text);
  };
  const prompted = (credential = token, more: object = {}) => ask(gateway.url, credential, { ...PROMPTED, ...more });

  upstream.script = answerJson(message());
  await hear(prompted());
  await hear(prompted(WRONG_TOKEN));
  await hear(prompted(WRONG_KEY));
  await hear(prompted(`${token}x`));
  await hear(send(gateway.url, { headers: ['x-api-key', WRONG_KEY], body: messagesBody(PROMPTED) }));
  await hear(send(gateway.url, { path: `/v1/messages?api_key=${token}`, headers: ['x-api-key', token], body: PROMPT }));
  await hear(send(gateway.url, { path: `/nowhere?token=${token}`, headers: bearer(token) }));
  await hear(send(gateway.url, { method: 'GET', path: '/v1/messages', headers: bearer(token) }));
  await hear(send(gateway.url, { headers: bearer(token), body: `{"model":"coder-1","x":"${PROMPT}` }));
  await hear(prompted(token, { model: PROMPT.length }));
  await hear(prompted(token, { max_tokens: PROMPT }));
  await hear(send(gateway.url, { headers: bearer(token, ['x-huge', 'h'.repeat(300_000)]), body: '{}' }));
  said.push(
    await sendRaw(gateway.url, `POST /v1/messages HTTP/1.1\r\nauthorization: Bearer ${token}\r\nbad header\r\n\r\n`),
  );

  upstream.script = answerChunks(messageEvents());
  await hear(prompted(token, { stream: true }));
  upstream.script = answerBytes(502, ['content-type', 'text/html'], `<h1>${UPSTREAM_KEY} was refused</h1>`);
  await hear(prompted());
  upstream.script = answerBytes(302, ['location', `https://elsewhere.example/?key=${UPSTREAM_KEY}`], '');
  await hear(prompted());
  upstream.script = reset;
  await hear(prompted());
  upstream.script = hang;
  await hear(prompted());
  const { abort } = open(gateway.url, { headers: bearer(token), body: messagesBody(PROMPTED) });
  abort();
  await upstream.pause();
  await hear(prompted());
  await upstream.resume();

  relay.target_port = 1;
  await database.knex.raw(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  );
  await until('the outage is felt', async () => {
    const response = await prompted();
    said.push(response.text);
    return response.status === 503;
  });
  await hear(send(gateway.url, { method: 'GET', path: '/readyz' }));
  relay.target_port = Number(new URL(database_url).port);
  upstream.script = answerJson(message());
  await until('the gateway serves again', async () => (await prompted()).status === 200);
  return said;
}

test('no secret and no prompt text is in any output, error, audit record or ledger row', async () => {
  search.look('what clients were sent', (await exercise()).join('\n'));
  const { database, database_url, config_file, env } = scene;
  const with_config = ['--config', config_file];
  const commands = [
    ['check'],
    ['tokens', 'list', '--json'],
    ['usage', '--json'],
    ['audit', 'tail'],
    ['tokens', 'create', '--user', 'x@example.com', '--group', 'no-such-group', '--name', 'n'],
  ];
  const outputs = await Promise.all(commands.map((command) => cli([...command, ...with_config], { env })));
  for (const [index, { stdout, stderr }] of outputs.entries()) {
    assert.ok(stdout + stderr !== '', `${commands[index]!.join(' ')} says something`);
    search.look(`the output of ${commands[index]!.join(' ')}`, stdout + stderr);
  }
  await gateway.end('SIGTERM');
  search.look("the gateway's own output", gateway.output());
  assert.ok(gateway.output().length > 100, 'there is output to look at');
  assert.ok(JSON.stringify(await auditRows(database)).length > 1000, 'there is an audit log to look at');
  const tables: { table_name: string }[] = await database
    .knex('information_schema.tables')
    .where({ table_schema: 'public', table_type: 'BASE TABLE' })
    .select('table_name');
  for (const { table_name } of tables) {
    search.look(`the table ${table_name}`, rowsAsText(await database.knex(table_name).select('*')));
  }

  const secrets: Record<string, string> = {
    "the upstream's key": UPSTREAM_KEY,
    'an access token': token,
    'the secret part of an access token': token.slice(-24),
    'a wrong token': WRONG_TOKEN,
    'a foreign key': WRONG_KEY,
    'the database password': new URL(database_url).password,
    'prompt text': PROMPT,
  };
  for (const [what, secret] of Object.entries(secrets)) search.plant(what, secret);
  assert.deepEqual(search.found(), []);
});
