/** A certificate that is renewed while the gateway runs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect } from 'node:tls';
import { CERTIFICATES } from '../../support/certificates.ts';
import { bootGateway, serverSection, type TestGateway } from '../../support/gateway.ts';

let directory: string;
let gateway: TestGateway;

async function install({ cert, key }: { readonly cert: string; readonly key: string }): Promise<void> {
  await writeFile(join(directory, 'tls.crt'), cert);
  await writeFile(join(directory, 'tls.key'), key);
}

/** The server's name on a new connection. */
async function subject(): Promise<string | undefined> {
  const { hostname: host, port } = new URL(gateway.url);
  const socket = connect({ host, port: Number(port), rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return String(CN);
}

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'reload-certificate-'));
  await install(CERTIFICATES.first);
  const tls = { cert_file: join(directory, 'tls.crt'), key_file: join(directory, 'tls.key') };
  gateway = await bootGateway({
    upstream_url: 'http://127.0.0.1:9',
    config: { server: { ...serverSection({}), public_url: 'https://gateway.example.com', tls } },
  });
});
after(async () => {
  await gateway?.close();
  await rm(directory, { recursive: true, force: true });
});

test('a reload serves the renewed certificate, and one that cannot be used leaves the old in place', async () => {
  assert.equal(await subject(), CERTIFICATES.first.name);
  await install(CERTIFICATES.second);
  assert.equal(await subject(), CERTIFICATES.first.name, 'not before the reload');
  await gateway.reload();
  assert.equal(await subject(), CERTIFICATES.second.name);

  for (const broken of [
    { cert: CERTIFICATES.first.cert, key: CERTIFICATES.second.key },
    { cert: 'no certificate', key: CERTIFICATES.first.key },
  ]) {
    await install(broken);
    await gateway.reload();
    assert.equal(await subject(), CERTIFICATES.second.name);
    const said = gateway.logs.at(-1)!;
    assert.match(said, /reload failed/);
    assert.match(said, /tls\.crt with the key .*tls\.key cannot be used/);
    assert.ok(!said.includes('PRIVATE KEY'));
  }
  await install(CERTIFICATES.first);
  await gateway.reload();
  assert.equal(await subject(), CERTIFICATES.first.name);
});
