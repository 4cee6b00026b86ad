import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { examineDirectories, examineFiles, examineOwnCertificate } from '../../../engine/doctor/host/files.ts';
import type { Host } from '../../../engine/doctor/host/host.ts';
import type { Machine } from '../../../engine/doctor/host/machine.ts';
import { announceBody } from '../../../engine/doctor/host/public/announce-body.ts';
import { askWhoItIs, createDirectAsk } from '../../../engine/doctor/host/running.ts';
import { examineSpool } from '../../../engine/doctor/host/spool.ts';
import { lookAtCertificate } from '../../../engine/doctor/host/tls-look.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { ownProcess } from '../../../engine/kit/process/gateway-process.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { SpoolNames } from '../../../engine/store/spool/spool-names.ts';
import { createProject } from '../../load/support/project.ts';
import { CERTIFICATES } from '../../support/certificates.ts';
import { testMachine } from './support.ts';

const cleanups: (() => void)[] = [];
after(() => {
  for (const cleanup of cleanups) cleanup();
});

function project(files: Readonly<Record<string, string>>) {
  const made = createProject(files);
  cleanups.push(() => made.remove());
  return made;
}

/** A host of some files, on this machine as its owner sees it. */
function hostOf(
  files: readonly string[],
  sections: Parameters<typeof stageConfig>[0] = {},
  machine: Partial<Machine> = {},
): Host {
  return {
    config_file: files[0] ?? 'gateway.yaml',
    config: stageConfig(sections),
    loaded: { files, pipelines: [], positionOf: () => undefined } as never,
    machine: { ...testMachine(), platform: 'linux', ...machine },
    env: {},
    stages: [],
    timeout_seconds: 2,
    running: undefined,
    direct: undefined,
  };
}

const server = (tls?: { cert_file: string; key_file: string }, public_url = 'https://first.example.com') => ({
  server: { ...stageConfig({}).server, public_url, ...(tls && { tls }) },
});

test('files that everybody may change are told of with the command that ends it', () => {
  const { path } = project({ 'gateway.yaml': '', 'policies/a.yaml': '' });
  const host = hostOf([path('gateway.yaml'), path('policies/a.yaml')]);
  assert.equal(examineFiles(host).verdict, 'ok');
  chmodSync(path('policies/a.yaml'), 0o666);
  const found = examineFiles(host);
  assert.equal(found.verdict, 'warning');
  assert.match(found.found, /everybody .* may change .*a\.yaml \(0666\)/);
  assert.match(found.remedy ?? '', /^chmod o-w .*a\.yaml$/);
  chmodSync(path('policies/a.yaml'), 0o644);
  chmodSync(path('policies'), 0o777);
  assert.match(examineFiles(host).found, /policies \(0777\)/);
  assert.equal(examineFiles({ ...host, machine: { ...host.machine, platform: 'win32' } }).verdict, 'skipped');
});

test('a private key that everybody may read, and files that this user may not, are told of', () => {
  const { path } = project({ 'gateway.yaml': '', 'tls.key': '', 'tls.crt': '' });
  const sections = server({ cert_file: path('tls.crt'), key_file: path('tls.key') });
  chmodSync(path('tls.key'), 0o644);
  const files = [path('gateway.yaml'), path('tls.key')];
  assert.match(examineFiles(hostOf(files, sections)).found, /may read the private key .*tls\.key \(0644\)/);
  chmodSync(path('tls.key'), 0o600);
  assert.equal(examineFiles(hostOf(files, sections)).verdict, 'ok');
  const other = { uid: 4711, groups: [4711] };
  assert.match(examineFiles(hostOf(files, sections, other)).found, /this user may not read .*tls\.key/);
});

test("the gateway's certificate must go with its key, be valid and be for its public URL", () => {
  const { first, second } = CERTIFICATES;
  const { path } = project({ 'a.crt': first.cert, 'a.key': first.key, 'b.key': second.key, 'no.crt': 'nothing' });
  const judged = (cert: string, key: string, url?: string, machine: Partial<Machine> = {}) =>
    examineOwnCertificate(hostOf([], server({ cert_file: path(cert), key_file: path(key) }, url), machine))[0]!;
  assert.equal(judged('a.crt', 'a.key').verdict, 'ok');
  assert.match(judged('a.crt', 'b.key').found, /is not that of the certificate/);
  assert.match(judged('a.crt', 'missing.key').found, /can't be read \(ENOENT\)/);
  assert.match(judged('no.crt', 'a.key').found, /holds no certificate/);
  assert.match(judged('a.crt', 'a.key', 'https://other.example.com').found, /not for other\.example\.com/);
  const late = { now: () => Date.parse('2130-01-01') };
  assert.equal(judged('a.crt', 'a.key', undefined, late).verdict, 'failed');
  assert.deepEqual(examineOwnCertificate(hostOf([])), []);
});

const limits = (spool_dir: string) => ({ spend_limits: { ...stageConfig({}).spend_limits, spool_dir } as never });
const GIB = 1024 ** 3;

test('directories that the gateway writes to must be its own, and have room', async () => {
  const { directory, path } = project({ file: '' });
  mkdirSync(path('spool'), { mode: 0o700 });
  const room = (free: number, total = 20) => ({
    space: async () => ({ free_bytes: free * GIB, total_bytes: total * GIB }),
  });
  const judged = async (name: string, machine: Partial<Machine> = room(10)) => {
    const sections = { ...limits(path(name)), database: { postgres: { url_env: 'X', pool_max: 10 } } };
    const found = await examineDirectories(hostOf([], sections, machine));
    assert.equal(found.length, 1);
    return found[0]!;
  };
  assert.equal((await judged('spool')).verdict, 'ok');
  assert.match((await judged('missing/spool')).found, /^made when it is needed; 10 GiB of 20 GiB free$/);
  assert.match((await judged('file')).found, /no directory/);
  assert.equal((await judged('spool', room(0.1))).verdict, 'failed');
  assert.equal((await judged('spool', room(0.8))).verdict, 'warning');
  assert.equal((await judged('spool', room(0.4, 1))).verdict, 'ok');
  assert.equal((await judged('spool', room(0.05, 1))).verdict, 'failed');
  assert.match((await judged('spool', { ...room(9), uid: 4711, groups: [] })).found, /may not write/);
  assert.match(
    (await judged('x/spool', { ...room(9), uid: 4711, groups: [] })).found,
    new RegExp(`may not make it in ${directory}`),
  );
  assert.match((await judged('spool', { space: async () => undefined })).found, /can't be told/);
  assert.match(
    (await judged('x/spool', { ...room(9), isReadOnly: () => true })).found,
    /file system that is read-only/,
  );
  chmodSync(path('spool'), 0o755);
  assert.match((await judged('spool')).remedy ?? '', /chmod 700/);
});

test('a directory for the embedded database that this user may not make is told of', async () => {
  const { path } = project({});
  const sections = { database: { embedded: { data_dir: path('new/postgres') } } };
  const judged = (machine: Partial<Machine>) => examineDirectories(hostOf([], sections as never, machine));
  const [mine] = await judged({});
  assert.doesNotMatch(mine?.found ?? '', /may not make it/);
  const [foreign] = await judged({ uid: 4711, groups: [] });
  assert.match(foreign?.found ?? '', /missing, and this user may not make it/);
});

const OWN = '11111111-1111-4111-8111-111111111111';
const OTHER = '22222222-2222-4222-8222-222222222222';

test('what waits in the spool is told of: of dead gateways, of other databases, and what was set aside', async () => {
  const { path } = project({});
  mkdirSync(path('spool'));
  const spool = (name: string) => writeFileSync(path(`spool/${name}`), 'x'.repeat(2048));
  const judged = async (more: Partial<Host> = {}) =>
    (await examineSpool({ ...hostOf([], limits(path('spool'))), ...more }, OWN)).map(
      ({ verdict, found }) => `${verdict}: ${found}`,
    );
  assert.deepEqual(await judged(), ['ok: nothing waits in it']);
  spool(new SpoolNames(ownProcess(), systemClock).own({ id: crypto.randomUUID(), database_id: OWN }));
  assert.match(String(await judged()), /^ok: 1 file with 2 KiB, .*what running gateways write now$/);
  spool(`${OWN}.${crypto.randomUUID()}.spool`);
  assert.match(
    String(await judged()),
    /^warning: 2 files with 4 KiB, .* wait for the ledger, and no gateway runs here$/,
  );
  const running = { running: { pid: 1 } as never };
  assert.match(String(await judged(running)), /^ok: 2 files/);
  for (const name of testMachine().list(path('spool'))) utimesSync(path(`spool/${name}`), 0, 0);
  assert.match(String(await judged(running)), /^warning: 2 files .* although a gateway runs$/);
  spool(`${OTHER}.${crypto.randomUUID()}.spool`);
  spool('something.aside');
  assert.match(
    (await judged(running)).join('\n'),
    /1 file of another database \(22222222.*\n.*1 file with what the ledger could not take/,
  );
  assert.deepEqual(await examineSpool(hostOf([]), OWN), []);
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

test('a certificate is looked at without believing it, and whoever says nothing is not waited for', async () => {
  const { cert, key } = CERTIFICATES.first;
  const port = await listen(createTlsServer({ cert, key }, (_, res) => res.end()) as unknown as Server);
  const shown = await lookAtCertificate(`https://127.0.0.1:${port}`, { seconds: 5 });
  assert.equal(shown.problem, 'DEPTH_ZERO_SELF_SIGNED_CERT');
  assert.equal(shown.issuer, 'first.example.com');
  assert.equal(shown.lacks_intermediate, false);
  assert.ok(shown.valid_to > Date.parse('2100-01-01'));
  const silent = await listen(createServer());
  await assert.rejects(lookAtCertificate(`https://127.0.0.1:${silent}`, { seconds: 0.05 }));
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
  const { path } = project({ 'a.crt': first.cert, 'a.key': first.key });
  const seen: (string | undefined)[] = [];
  const tls = async ({ cert, key }: { readonly cert: string; readonly key: string }) =>
    listen(
      createTlsServer({ cert, key }, (req, res) => {
        seen.push(req.headers.authorization);
        res.end('# Model gateway: protocol\n\nSpoken by appscli 1.2.3 at https://first.example.com, written ...');
      }) as unknown as Server,
    );
  const { config } = hostOf(
    [],
    server({ cert_file: path('a.crt'), key_file: path('a.key') }, 'https://outer.example.com'),
  );
  const given = { seconds: 5, headers: { authorization: 'Bearer secret' } };
  const own = createDirectAsk(config, `https://127.0.0.1:${await tls(first)}`);
  assert.deepEqual(await askWhoItIs(own, 5), { version: '1.2.3', issuer: 'https://first.example.com' });
  const foreign = createDirectAsk(config, `https://127.0.0.1:${await tls(second)}`);
  await assert.rejects(foreign('/', given), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  assert.deepEqual(seen, [undefined]);
});
