import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { test } from 'node:test';
import { type DatabaseFacts, evaluateDatabase } from '../../../engine/edge/doctor/host/database.ts';
import { askWhoItIs, checkClock, clockIn, createDirectAsk } from '../../../engine/edge/doctor/host/host.ts';
import { announceBody } from '../../../engine/edge/doctor/host/public-url.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { createProject } from '../../load/support/project.ts';
import { CERTIFICATES } from '../../support/certificates.ts';
import { ownPort } from '../../support/net/own-port.ts';

test('a clock is wrong where it differs from all others, and suspect where it differs from one', () => {
  const ahead = (...seconds: number[]) =>
    checkClock(
      seconds.map((each, index) => ({ of: `server ${index}`, ahead_ms: each * 1000 })),
      30,
    );
  assert.equal(ahead(0.2, -1).verdict, 'ok');
  assert.equal(ahead(300, 302).verdict, 'failed');
  assert.match(ahead(300, 302).found, /server 0 \(5 min ahead\).*auth\.oidc\.clock_skew_seconds/);
  assert.equal(ahead(-20, -21).verdict, 'warning');
  assert.match(ahead(0, 0.5, 600).found, /^differs from server 2 \(10 min ahead\); /);
  assert.equal(ahead(600).verdict, 'warning');
  assert.equal(ahead().verdict, 'skipped');
});

test("the time in a response is its server's, unless the response is older", () => {
  const date = 'Mon, 23 Nov 2026 09:00:00 GMT';
  const now = Date.parse(date) + 500;
  assert.equal(clockIn({ date }, now), 0);
  assert.equal(clockIn({ date, age: '10' }, now), undefined);
  assert.equal(clockIn({ date: 'yesterday' }, now), undefined);
  assert.equal(clockIn({}, now), undefined);
});

const FACTS: DatabaseFacts = { version: 18, usable: 97, in_use: 3, limited_by: 'max_connections', ahead_ms: 0 };

const config = stageConfig({ database: { postgres: { url_env: 'DATABASE_URL', pool_max: 10 } } });
const wrong = (facts: Partial<DatabaseFacts>) =>
  evaluateDatabase({ ...FACTS, ...facts }, { config, running: undefined })
    .filter(({ verdict }) => verdict !== 'ok')
    .map(({ id, verdict, found, remedy }) => {
      assert.ok(remedy, id);
      return `${verdict} ${id}: ${found}`;
    })
    .join('\n');

test('reports each database fault by itself, with a remedy', () => {
  assert.equal(wrong({}), '');
  assert.match(wrong({ version: 14 }), /^failed database\.version: 14: the gateway needs 15/);
  assert.match(wrong({ usable: 8 }), /^failed database\.connections/);
  assert.match(wrong({ in_use: 90 }), /^warning database\.connections: 90 of 97 in use/);
  assert.match(wrong({ usable: 15, in_use: 0 }), /^warning .*during an upgrade two run at once/);
  const embedded = stageConfig({ database: { embedded: { data_dir: 'data' } } });
  const found = evaluateDatabase({ ...FACTS, usable: 1 }, { config: embedded, running: undefined });
  assert.ok(found.every(({ verdict }) => verdict === 'ok'));
});

test('a large body is announced and never sent', async () => {
  const seen: string[] = [];
  let behaviour: (req: IncomingMessage, res: ServerResponse) => void = () => {};
  const made = createServer();
  made.on('checkContinue', (req: IncomingMessage, res: ServerResponse) => {
    seen.push(`${req.method} ${req.url} ${req.headers['content-length']} ${req.headers.authorization}`);
    req.on('data', () => seen.push('body'));
    behaviour(req, res);
  });
  const url = `http://127.0.0.1:${await ownPort(made)}`;
  const ask = (does: typeof behaviour, seconds = 5) => {
    behaviour = does;
    return announceBody(url, { bytes: 32 * 1024 * 1024, seconds });
  };
  assert.equal(await ask((_, res) => res.writeContinue()), 100);
  assert.equal(await ask((_, res) => res.writeHead(401).end()), 401);
  assert.equal(await ask((_, res) => res.writeHead(413).end()), 413);
  assert.equal(await ask(() => {}, 0.05), undefined);
  assert.deepEqual(new Set(seen), new Set(['POST /v1/messages 33554432 undefined']));
});

test('a gateway accepts only the certificate of its file on its own socket', async () => {
  const { first, second } = CERTIFICATES;
  const project = createProject({ 'a.crt': first.cert });
  const seen: (string | undefined)[] = [];
  const tls = async ({ cert, key }: { readonly cert: string; readonly key: string }) =>
    ownPort(
      createTlsServer({ cert, key }, (req, res) => {
        seen.push(req.headers.authorization);
        res.end('# Model gateway: protocol\n\nSpoken by appscli 1.2.3 at https://first.example.com, written ...');
      }),
    );
  const cert_file = project.path('a.crt');
  const config = stageConfig({
    server: {
      ...stageConfig({}).server,
      public_url: 'https://outer.example.com',
      tls: { cert_file, key_file: cert_file },
    },
  });
  const input = { seconds: 5, headers: { authorization: 'Bearer secret' } };
  const own = createDirectAsk(config, `https://127.0.0.1:${await tls(first)}`);
  assert.deepEqual(await askWhoItIs(own, 5), { version: '1.2.3', issuer: 'https://first.example.com' });
  const foreign = createDirectAsk(config, `https://127.0.0.1:${await tls(second)}`);
  await assert.rejects(foreign('/', input), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  assert.deepEqual(seen, [undefined]);
});
