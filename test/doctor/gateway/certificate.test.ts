import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { ClientKind } from '../../../engine/doctor/desk.ts';
import { DOCTORED } from './certificates.ts';
import { examine, faultsOf, listen, standIn } from './support.ts';

const folder = mkdtempSync(join(tmpdir(), 'appscli-test-'));
after(() => rmSync(folder, { recursive: true }));

function fileOf(...certificates: string[]): string {
  const file = join(folder, `${certificates.join('').length}.pem`);
  writeFileSync(file, certificates.join(''));
  return file;
}

const INTERCEPTOR = fileOf(DOCTORED.interceptor);
const TRUSTED = { NODE_EXTRA_CA_CERTS: INTERCEPTOR, SSL_CERT_FILE: INTERCEPTOR };

async function tlsOf(
  certificate: { cert: string; key: string },
  env: Record<string, string>,
  clients: readonly ClientKind[] = ['messages'],
) {
  const asked: string[] = [];
  const answer = standIn();
  const port = await listen((req, res) => {
    asked.push(req.url!);
    answer(req, res);
  }, certificate);
  const { of, diagnoses } = await examine(`https://localhost:${port}`, {
    env,
    connections: clients.map((client) => ({ client })),
  });
  return { tls: of('tls'), of, diagnoses, asked };
}

describe('the certificate of a gateway', () => {
  test('is good where its authority is named in the variable that the client reads', async () => {
    const { tls, of, diagnoses } = await tlsOf(DOCTORED.good, TRUSTED, ['messages', 'coding-cli']);
    assert.equal(tls.verdict, 'ok');
    assert.equal(of('token').verdict, 'ok');
    assert.deepEqual(faultsOf(diagnoses), []);
  });

  test('is told as not trusted where nobody knows its authority, with the variable of each client, and no token is sent', async () => {
    const { tls, asked } = await tlsOf(DOCTORED.good, {}, ['messages', 'build-cli']);
    assert.equal(tls.verdict, 'failed');
    assert.match(tls.found, /not trusted: its authority is unknown; it is signed by "Zscaler Root CA of tests/);
    assert.match(
      tls.remedy!,
      /authority of your company.*NODE_EXTRA_CA_CERTS for the Messages client; SSL_CERT_FILE for the build CLI/,
    );
    assert.deepEqual(asked, []);
  });

  test('is a fault for clients that do not read the variable that names its authority', async () => {
    const only_messages = { NODE_EXTRA_CA_CERTS: INTERCEPTOR };
    const { tls } = await tlsOf(DOCTORED.good, only_messages, ['messages', 'coding-cli']);
    assert.equal(tls.verdict, 'failed');
    assert.match(tls.found, /NODE_EXTRA_CA_CERTS names, and the coding CLI does not read that$/);
    assert.equal((await tlsOf(DOCTORED.good, only_messages)).tls.verdict, 'ok');
    assert.equal(
      (await tlsOf(DOCTORED.good, { SSL_CERT_FILE: INTERCEPTOR }, ['messages', 'coding-cli'])).tls.verdict,
      'ok',
    );
  });

  test('is told as expired, as not good yet, and as that of another name, and no token is sent', async () => {
    const cases = [
      ['expired', /certificate has expired/, /clock of this machine/],
      ['early', /certificate is not valid yet/, /clock of this machine/],
      ['other', /certificate is for another host/, /the address that the certificate is for/],
    ] as const;
    for (const [name, found, remedy] of cases) {
      const { tls, asked } = await tlsOf(DOCTORED[name], TRUSTED);
      assert.equal(tls.verdict, 'failed');
      assert.match(tls.found, found);
      assert.match(tls.remedy!, remedy);
      assert.deepEqual(asked, []);
    }
  });

  test('is told as sent without that of its issuer', async () => {
    const env = { NODE_EXTRA_CA_CERTS: fileOf(DOCTORED.root) };
    const { tls } = await tlsOf(DOCTORED.chained, env);
    assert.equal(tls.verdict, 'failed');
    assert.match(tls.found, /signed by "Example Corp Issuing, Example Corp"/);
    assert.match(tls.remedy!, /have the gateway send its whole chain/);
    const whole = { cert: DOCTORED.chained.cert + DOCTORED.intermediate, key: DOCTORED.chained.key };
    assert.equal((await tlsOf(whole, env)).tls.verdict, 'ok');
  });

  test('is a warning shortly before it expires', async () => {
    const port = await listen(standIn(), DOCTORED.good);
    const now = () => Date.parse('2125-12-25T00:00:00Z');
    const { of } = await examine(`https://localhost:${port}`, { env: TRUSTED, now });
    assert.equal(of('tls').verdict, 'warning');
    assert.match(of('tls').found, /good for 7 more days/);
  });

  test('is missing where plain HTTP, or nothing that makes sense, is spoken', async () => {
    const plain = await examine(`https://localhost:${await listen(standIn())}`);
    assert.match(plain.of('tls').found, /does not speak TLS/);
    const silent = createServer((socket) => socket.on('data', () => socket.destroy()));
    const port = await new Promise<number>((resolve) => {
      silent.listen(0, '127.0.0.1', () => resolve((silent.address() as { port: number }).port));
    });
    const cut = await examine(`https://localhost:${port}`);
    silent.close();
    assert.match(cut.of('tls').found, /the connection was cut/);
  });
});

test('an address that begins with http where TLS is spoken is told as that', async () => {
  const port = await listen(standIn(), DOCTORED.good);
  const { of } = await examine(`http://localhost:${port}`);
  assert.equal(of('address').verdict, 'failed');
  assert.match(of('address').found, /TLS is spoken there/);
  assert.match(of('address').remedy!, new RegExp(`give clients https://localhost:${port}$`));
});

describe('variables about certificates', () => {
  test('count for the client in whose files they are, and for no other', async () => {
    const port = await listen(standIn(), DOCTORED.good);
    const network_variables = { NODE_EXTRA_CA_CERTS: { value: INTERCEPTOR, where: 'settings.json:1' } };
    const connections = [{ network_variables }, { client: 'build-cli' as const }];
    const { diagnoses } = await examine(`https://localhost:${port}`, { connections });
    const verdicts = diagnoses.filter(({ id }) => id === 'gateway.tls').map(({ verdict }) => verdict);
    assert.deepEqual(verdicts, ['ok', 'failed']);
    const away = { NODE_EXTRA_CA_CERTS: { value: join(folder, 'nowhere.pem'), where: 'settings.json:1' } };
    const { of } = await examine(`https://localhost:${port}`, { connections: [{ network_variables: away }] });
    assert.equal(of('authorities').where, 'settings.json:1');
  });

  test('are told where they name no file, no certificate, or switch checking off', async () => {
    const port = await listen(standIn(), DOCTORED.good);
    const env = {
      NODE_EXTRA_CA_CERTS: join(folder, 'nowhere.pem'),
      SSL_CERT_FILE: fileOf('no certificate'),
      NODE_TLS_REJECT_UNAUTHORIZED: '0',
    };
    const { diagnoses, of } = await examine(`https://localhost:${port}`, { env });
    const said = diagnoses.filter(({ id }) => id === 'gateway.authorities');
    assert.deepEqual(
      said.map(({ where }) => where),
      ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'NODE_TLS_REJECT_UNAUTHORIZED'],
    );
    assert.match(
      said.map(({ found }) => found).join('\n'),
      /ENOENT.*\n.*holds no certificate.*\ncertificates are not checked/,
    );
    assert.equal(of('tls').verdict, 'failed');
  });
});
