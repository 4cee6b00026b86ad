/** The published package: packed, installed into an empty directory, and used there with the machine's own Node.js. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join, relative } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readServerState } from '../../../engine/base/store/embedded-postgres.ts';
import { type Ended, start } from '../../cli/support.ts';
import { gatewayConfig, serverSection } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { listeningAt } from '../support/gateway-process.ts';

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url));
/** What npm gives the scripts it runs, apart from where its registry and cache are: none of it holds in another directory. */
const NPM_VARIABLE = /^(npm_(?!config_(cache|registry|userconfig|globalconfig|cafile)$)|INIT_CWD|NODE$|APPSCLI_)/i;

/** Files that a checkout lacks, or gets by building. */
const NOT_COPIED = /^(node_modules|dist|\.git|\.appscli)$/;

let directory: string;
let env: NodeJS.ProcessEnv;
let installing: Ended;
/** The options that the README installs it with. */
let options: readonly string[];

/** The links of npm. */
const linked = (name: string) => join(directory, 'node_modules/.bin', name);

async function run(file: string, arguments_: readonly string[], cwd: string): Promise<Ended> {
  const ended = await start(file, arguments_, { cwd, env }).ended;
  assert.equal(ended.exit_code, 0, `${file} ${arguments_.join(' ')}: ${ended.stderr}${ended.stdout}`);
  return ended;
}

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'appscli-package-'));
  await chmod(directory, 0o755);
  const outside = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !NPM_VARIABLE.test(name)));
  env.PATH = outside.join(delimiter);
  // A runner that thinks it is inside this one runs nothing, and no program here is a part of the tests.
  delete env.NODE_TEST_CONTEXT;
  delete env.NODE_OPTIONS;
  // Packing builds, which would remove files from under other tests.
  const checkout = join(directory, 'checkout');
  await cp(REPOSITORY, checkout, {
    recursive: true,
    filter: (path) => !NOT_COPIED.test(relative(REPOSITORY, path)),
  });
  await symlink(join(REPOSITORY, 'node_modules'), join(checkout, 'node_modules'));
  await run('npm', ['pack', '--pack-destination', directory], checkout);
  const [tarball] = (await readdir(directory)).filter((name) => name.endsWith('.tgz'));
  await writeFile(join(directory, 'package.json'), '{ "private": true }');
  const readme = await readFile(join(REPOSITORY, 'README.md'), 'utf8');
  const [, said = ''] = /`npm install ([^`<]*)<path of the package>`/.exec(readme)!;
  options = said.split(' ').filter((option) => option !== '');
  const offline = ['--prefer-offline', '--no-audit', '--no-fund'];
  installing = await run('npm', ['install', ...options, ...offline, `./${tarball}`], directory);
});
after(() => rm(directory, { recursive: true, force: true }));

test("nothing warns, whatever the machine's own Node.js: neither as the README installs it, nor when it runs", async () => {
  assert.equal(installing.stderr, '');
  const launcher = join(directory, 'node_modules', 'appscli', 'engine', 'bin', 'appscli.js');
  const folder = env.PATH!.split(delimiter).find((path) => existsSync(join(path, 'node')))!;
  assert.equal((await run(join(folder, 'node'), [launcher, '--help'], directory)).stderr, '');
});

test('the documented program runs', async () => {
  const { version } = JSON.parse(await readFile(join(REPOSITORY, 'package.json'), 'utf8'));
  assert.equal((await run(linked('appscli'), ['--version'], directory)).stdout, `${version}\n`);
});

test('the package contains the program, its data, the names of clients and the dashboards, and neither sources nor tests', async () => {
  const root = join(directory, 'node_modules', 'appscli');
  const names = (await readdir(root, { recursive: true })).filter((name) => !name.startsWith('node_modules'));
  const NEEDED = [
    'dist/engine/api.d.ts',
    'dist/console/index.html',
    'dist/client/appscli.mjs',
    'pipelines/model-requests.yaml',
    'schemas/gateway.schema.json',
    'LICENSE',
  ];
  const SHIPPED = [
    'examples/profiles/vendor-names.yaml',
    'examples/observability/grafana/dashboards/money.json',
    'examples/oidc-and-postgres/roles.sql',
  ];
  for (const needed of [...NEEDED, ...SHIPPED]) assert.ok(names.includes(needed), needed);
  const unwanted = names.filter((name) =>
    /\.test\.|(?<!\.d)\.ts$|^test|^examples\/(?!profiles|observability|oidc-and-postgres(?:\/roles\.sql)?$)/.test(name),
  );
  // The output of `appscli init` begins with a pipeline and its test.
  assert.deepEqual(unwanted, ['engine/edge/cli/init/project/gateway.test.yaml']);
});

test("the package contains the README's link targets, but for examples and the rules for contributions", async () => {
  const root = join(directory, 'node_modules', 'appscli');
  const links = (await readFile(join(root, 'README.md'), 'utf8')).matchAll(/\]\((?!https?:|#)([^)#]+)/g);
  const missing = [...links].map(([, path]) => path!).filter((path) => !existsSync(join(root, path)));
  const found = missing.filter((path) => !path.startsWith('examples/'));
  assert.deepEqual(found, ['CONTRIBUTING.md']);
});

test('the output of appscli init passes the check and its own tests, without npm warnings', async () => {
  await run(linked('appscli'), ['init', 'begun'], directory);
  const begun = join(directory, 'begun');
  await run(linked('appscli'), ['check'], begun);
  await run(linked('appscli'), ['test'], begun);
  const schema = /\$schema=(.+)/.exec(await readFile(join(begun, 'pipelines/long-answers.yaml'), 'utf8'))?.[1];
  assert.equal(schema, '../../node_modules/appscli/schemas/generated/pipeline.schema.json');
  // For npm a directory with this file is a project of its own.
  await writeFile(join(begun, 'package.json'), '{ "private": true }');
  assert.deepEqual(options, ['--loglevel=error']);
  assert.equal((await run('npm', ['config', 'get', 'loglevel'], begun)).stdout, 'error\n');
});

test('a stage that appscli create writes passes its test, and both compile against the types of the package', async () => {
  // The output of `npm init` in a directory.
  await writeFile(join(directory, 'package.json'), '{ "private": true, "type": "commonjs" }');
  await run(linked('appscli'), ['create', 'stage', 'require-ticket'], directory);
  // As in the README of stages, but for the shell that removes the quotes.
  const readme = await readFile(join(REPOSITORY, 'stages/README.md'), 'utf8');
  const [, pattern] = /`node_modules\/\.bin\/node --test '([^'`]+)'`/.exec(readme)!;
  const { stdout } = await run(linked('node'), ['--test', pattern!], directory);
  assert.match(stdout, /pass 2\n/);
  const text = await readFile(join(directory, 'stages/require-ticket.ts'), 'utf8');
  await writeFile(join(directory, 'stages/broken.ts'), text.replace('ctx.headers', 'ctx.heders'));
  const tsc = [join(REPOSITORY, 'node_modules/typescript/bin/tsc'), '-p', '.', '--pretty', 'false'];
  const { stdout: findings } = await start(process.execPath, tsc, { cwd: directory, env }).ended;
  assert.match(findings, /^stages\/broken\.ts\(.*heders.*\n$/, 'the only line');
});

test('the installed gateway checks its configuration, starts with its own PostgreSQL, and stops with it', async () => {
  const config = gatewayConfig('http://127.0.0.1:9', {
    server: serverSection({}),
    database: { embedded: { data_dir: 'state' } },
  });
  await writeFile(join(directory, 'gateway.yaml'), JSON.stringify(config));
  await run(linked('appscli'), ['check', '--config', 'gateway.yaml'], directory);

  const bin = linked('appscli');
  const gateway = start(bin, ['gateway', '--config', 'gateway.yaml'], {
    cwd: directory,
    env: { ...env, TEST_UPSTREAM_KEY: 'key' },
  });
  const ready = async () => {
    if (gateway.process.exitCode !== null) throw new Error(`the gateway ended: ${gateway.stderr()}`);
    const at = listeningAt(gateway.stderr());
    return at !== undefined && (await fetch(`${at}/readyz`)).status === 200 && at;
  };
  const url = await until('the gateway is ready', ready);
  const arguments_ = ['tokens', 'create', '--user', 'alice@example.com', '--group', 'all', '--name', 'laptop'];
  const token = (await run(bin, arguments_, directory)).stdout.trim();
  const models = await fetch(`${url}/v1/models`, { headers: { 'x-api-key': token } });
  assert.equal(models.status, 200);

  const server = () => readServerState(join(directory, 'state/cluster')).kind;
  assert.equal(server(), 'running');
  gateway.process.kill('SIGTERM');
  assert.equal((await gateway.ended).exit_code, 0, gateway.stderr());
  assert.equal(server(), 'stopped');
});
