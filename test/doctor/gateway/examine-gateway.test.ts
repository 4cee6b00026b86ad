import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { freePort } from '../../support/free-port.ts';
import {
  answersErrorPage,
  answersOkToAll,
  redirectsToLogin,
  showsLoginPage,
  stripsHeaders,
} from '../../support/proxies/behaviours.ts';
import { startProxy } from '../../support/proxies/proxy.ts';
import { DOCTORED } from './certificates.ts';
import { examine, faultsOf, listen, type StandIn, standIn, TOKEN } from './support.ts';

const at = async (given?: StandIn) => `http://127.0.0.1:${await listen(standIn(given))}`;

describe('a gateway that does what it should', () => {
  test('has no faults, whichever client asks', async () => {
    const connections = [
      { model: 'coder-1[1m]', context_window: 200_000 },
      { client: 'coding-cli', model: 'coder-1', context_window: 100_000 },
      { client: 'build-cli', token: undefined },
    ] as const;
    const { diagnoses, of } = await examine(await at(), { connections });
    assert.deepEqual(faultsOf(diagnoses), []);
    assert.equal(of('token').title, 'Token of the Messages client, coding CLI');
    assert.equal(of('model').verdict, 'ok');
    assert.equal(of('context_window').verdict, 'ok');
  });

  test('is looked at once, however many clients use it, and every gateway by itself', async () => {
    const [one, other] = [await at(), await at({ accepts: [] })];
    const connections = [
      { root_url: one },
      { root_url: `${one}/`, client: 'coding-cli' as const },
      { root_url: other },
    ];
    const { diagnoses } = await examine(one, { connections });
    const of = (id: string) =>
      diagnoses.filter((each) => each.id === id).map(({ where, verdict }) => `${where} ${verdict}`);
    assert.deepEqual(of('gateway.connection'), [`${one} ok`, `${other} ok`]);
    assert.deepEqual(of('gateway.token'), [`${one} ok`, `${other} failed`]);
  });

  test('says nothing about a token where it gives its list to everybody', async () => {
    const { of, diagnoses } = await examine(await at({ accepts: [TOKEN, ''] }));
    assert.equal(of('token').verdict, 'skipped');
    assert.match(of('token').found, /to everybody/);
    assert.deepEqual(faultsOf(diagnoses), []);
  });
});

describe('the way to a gateway', () => {
  const pages = [
    [
      'a redirect to a login',
      redirectsToLogin('https://id.example.com/login?secret=planted'),
      /redirect \(status 302\) to https:\/\/id\.example\.com\/login$/,
    ],
    ['a login page', showsLoginPage, /"Sign in - Example Corp"/],
    ['an error page', answersErrorPage(502), /502 Bad Gateway/],
    ['JSON of something else', answersOkToAll, /JSON with status/],
  ] as const;
  for (const [name, behaviour, found] of pages) {
    test(`is told where ${name} comes in place of the list of models`, async () => {
      const proxy = await startProxy('http://127.0.0.1:9', behaviour);
      const { of, diagnoses } = await examine(proxy.url);
      await proxy.close();
      assert.equal(of('models').verdict, 'failed');
      assert.match(of('models').found, found);
      assert.ok(!JSON.stringify(diagnoses).includes('planted'));
      assert.ok(diagnoses.every(({ id }) => id !== 'gateway.token'));
    });
  }

  test('is told where a proxy takes the credential off', async () => {
    const proxy = await startProxy(await at({ code: 'credential_missing' }), stripsHeaders('authorization'));
    const { of } = await examine(proxy.url);
    await proxy.close();
    assert.match(of('token').found, /did not arrive/);
  });

  test('is told where nothing listens, where DNS does not know the name, and where the address is none', async () => {
    const refused = await examine(`http://127.0.0.1:${await freePort()}`);
    assert.match(refused.of('connection').found, /takes no connection at 127\.0\.0\.1:\d+: connection refused/);
    assert.match(refused.of('connection').remedy!, /start the gateway/);
    const unknown = await examine('https://gateway.invalid');
    assert.match(unknown.of('connection').found, /host name not found/);
    assert.deepEqual(faultsOf(unknown.diagnoses), ['connection']);
    const wrong = await examine('https://user:planted@gateway.example.com');
    assert.match(wrong.of('address').found, /holds credentials/);
    assert.ok(!JSON.stringify(wrong.diagnoses).includes('planted'));
  });

  test('is told as slow where the list takes longer than the Messages client waits', async (t) => {
    const answer = standIn();
    const { now } = performance;
    let waited_ms = 0;
    t.mock.method(performance, 'now', () => now.call(performance) + waited_ms);
    const port = await listen((req, res) => {
      waited_ms = 3100;
      answer(req, res);
    });
    const { of } = await examine(`http://127.0.0.1:${port}`, { connections: [{ token: undefined }] });
    assert.equal(of('models').verdict, 'failed');
    assert.match(of('models').found, /took \d+\.\d seconds; the Messages client gives up after 3/);
  });

  test('is told where the clock of this machine is wrong, in which direction', async () => {
    const root_url = await at();
    const ahead = await examine(root_url, { now: () => Date.now() + 7_200_000 });
    assert.equal(ahead.of('clock').verdict, 'failed');
    assert.match(ahead.of('clock').found, /is 120 minutes ahead of that of the gateway|is 2 hours ahead/);
    const behind = await examine(root_url, { now: () => Date.now() - 90_000 });
    assert.equal(behind.of('clock').verdict, 'warning');
    assert.match(behind.of('clock').found, /\d\d seconds behind/);
    const cached = await examine(await at({ headers: { age: '7200' } }), { now: () => Date.now() + 7_200_000 });
    assert.ok(cached.diagnoses.every(({ id }) => id !== 'gateway.clock'));
  });
});

describe('a proxy of this machine', () => {
  /** Opens ways as it is told to, and counts them. */
  async function tunnel(status = 200, to?: number) {
    const asked: string[] = [];
    const server = createServer((req, res) => {
      asked.push(`${req.method} ${req.url}`);
      res.writeHead(status).end();
    });
    server.on('connect', (req, socket) => {
      asked.push(`CONNECT ${req.headers['proxy-authorization'] ?? ''}`.trim());
      socket.on('error', () => {});
      if (status !== 200) {
        socket.end(`HTTP/1.1 ${status} No\r\n\r\n`);
        return;
      }
      const port = to ?? Number(req.url!.split(':')[1]);
      const behind = connect(port, '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        behind.pipe(socket).pipe(behind);
      });
      behind.on('error', () => socket.destroy());
      socket.on('close', () => behind.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const close = () => {
      server.close();
      server.closeAllConnections();
    };
    return { asked, port, close };
  }

  test('that opens no way is named by its variable, and its password is not', async () => {
    const proxy = await tunnel(407);
    const env = { HTTPS_PROXY: `http://ada:planted-word@127.0.0.1:${proxy.port}` };
    const { of, diagnoses } = await examine('https://gateway.example.com', { env });
    proxy.close();
    assert.match(
      of('proxy').found,
      /HTTPS_PROXY sends requests to gateway\.example\.com through the proxy 127\.0\.0\.1:\d+$/,
    );
    assert.match(of('tls').found, /the proxy 127\.0\.0\.1:\d+ answers with status 407/);
    assert.deepEqual(proxy.asked, [`CONNECT Basic ${Buffer.from('ada:planted-word').toString('base64')}`]);
    assert.ok(!JSON.stringify(diagnoses).includes('planted-word'));
  });

  test('that opens ways leads to a gateway that only it can reach, and to its certificate', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'appscli-test-'));
    const file = join(folder, 'authority.pem');
    writeFileSync(file, DOCTORED.interceptor);
    const proxy = await tunnel(200, await listen(standIn(), DOCTORED.other));
    const env = { HTTPS_PROXY: `http://127.0.0.1:${proxy.port}`, NODE_EXTRA_CA_CERTS: file };
    const { diagnoses, of } = await examine('https://other.example.com', { env });
    proxy.close();
    rmSync(folder, { recursive: true });
    assert.deepEqual(faultsOf(diagnoses), []);
    assert.match(of('connection').found, /the proxy that HTTPS_PROXY names takes connections/);
    assert.equal(of('tls').verdict, 'ok');
    assert.equal(of('token').verdict, 'ok');
  });

  test('that is away is named, and what NO_PROXY would do', async () => {
    const env = { HTTPS_PROXY: `http://127.0.0.1:${await freePort()}` };
    const { of } = await examine('https://gateway.example.com', { env });
    assert.match(of('connection').found, /the proxy that HTTPS_PROXY names takes no connection/);
    assert.match(of('connection').remedy!, /add that to NO_PROXY/);
  });

  test('that stands before this machine itself is a fault, and NO_PROXY mends it', async () => {
    const root_url = await at();
    const proxy = await tunnel(503);
    const env = { HTTP_PROXY: `http://127.0.0.1:${proxy.port}` };
    const through = await examine(root_url, { env });
    assert.equal(through.of('proxy').verdict, 'failed');
    assert.match(through.of('proxy').remedy!, /NO_PROXY=127\.0\.0\.1\)/);
    assert.equal(through.of('models').verdict, 'failed');
    const past = await examine(root_url, { env: { ...env, NO_PROXY: '127.0.0.1' } });
    proxy.close();
    assert.equal(past.of('proxy').verdict, 'ok');
    assert.deepEqual(faultsOf(past.diagnoses), []);
  });
});
