import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { announceBody } from '../../../engine/doctor/host/public/large-bodies.ts';
import { askWhoItIs, createDirectAsk } from '../../../engine/doctor/host/running.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { createProject } from '../../load/support/project.ts';
import { CERTIFICATES } from '../../support/certificates.ts';

const cleanups: (() => void)[] = [];
after(() => {
  for (const clean of cleanups) clean();
});

async function listen(made: Server): Promise<number> {
  cleanups.push(() => {
    made.close();
    made.closeAllConnections();
  });
  made.listen(0, '127.0.0.1');
  await once(made, 'listening');
  return (made.address() as AddressInfo).port;
}

test('a large body is announced and never sent', async () => {
  const seen: string[] = [];
  let behaviour: (req: IncomingMessage, res: ServerResponse) => void = () => {};
  const made = createServer();
  made.on('checkContinue', (req: IncomingMessage, res: ServerResponse) => {
    seen.push(`${req.method} ${req.url} ${req.headers['content-length']} ${req.headers.authorization}`);
    req.on('data', () => seen.push('body'));
    behaviour(req, res);
  });
  const url = `http://127.0.0.1:${await listen(made)}`;
  const ask = (does: typeof behaviour, seconds = 5) => {
    behaviour = does;
    return announceBody(url, { bytes: 32 * 1024 * 1024, seconds });
  };
  assert.deepEqual(await ask((_, res) => res.writeContinue()), { kind: 'taken' });
  assert.deepEqual(await ask((_, res) => res.writeHead(401).end()), { kind: 'taken' });
  assert.deepEqual(
    await ask((_, res) => res.writeHead(413, { server: 'nginx/1.22', 'content-type': 'text/html' }).end()),
    { kind: 'too_large', server: 'nginx/1.22', is_json: false },
  );
  assert.deepEqual(await ask((_, res) => res.writeHead(302).end()), { kind: 'unclear', status: 302 });
  assert.deepEqual(await ask(() => {}, 0.05), { kind: 'unclear', status: undefined });
  assert.deepEqual(new Set(seen), new Set(['POST /v1/messages 33554432 undefined']));
});

test('a gateway is asked at its own socket with the certificate of its file, and nobody with another one is', async () => {
  const { first, second } = CERTIFICATES;
  const project = createProject({ 'a.crt': first.cert });
  cleanups.push(() => project.remove());
  const seen: (string | undefined)[] = [];
  const tls = async ({ cert, key }: { readonly cert: string; readonly key: string }) =>
    listen(
      createTlsServer({ cert, key }, (req, res) => {
        seen.push(req.headers.authorization);
        res.end('# Model gateway: protocol\n\nSpoken by appscli 1.2.3 at https://first.example.com, written ...');
      }) as unknown as Server,
    );
  const cert_file = project.path('a.crt');
  const config = stageConfig({
    server: {
      ...stageConfig({}).server,
      public_url: 'https://outer.example.com',
      tls: { cert_file, key_file: cert_file },
    },
  });
  const given = { seconds: 5, headers: { authorization: 'Bearer secret' } };
  const own = createDirectAsk(config, `https://127.0.0.1:${await tls(first)}`);
  assert.deepEqual(await askWhoItIs(own, 5), { version: '1.2.3', issuer: 'https://first.example.com' });
  const foreign = createDirectAsk(config, `https://127.0.0.1:${await tls(second)}`);
  await assert.rejects(foreign('/', given), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  assert.deepEqual(seen, [undefined]);
});
