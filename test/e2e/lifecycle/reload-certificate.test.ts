/** A certificate that is renewed while the gateway runs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { connect } from 'node:tls';
import { CERTIFICATES } from '../../support/certificates.ts';
import { bootGateway, serverSection } from '../../support/gateway.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { use } from '../../support/use.ts';

const directory = ownDirectory();

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

before(() => install(CERTIFICATES.first));
const gateway = use(() => {
  const tls = { cert_file: join(directory, 'tls.crt'), key_file: join(directory, 'tls.key') };
  return bootGateway({
    upstream_url: 'http://127.0.0.1:9',
    config: { server: { ...serverSection({}), public_url: 'https://gateway.example.com', tls } },
  });
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
