import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { delimiter, join } from 'node:path';
import { before, describe, it } from 'node:test';
import type { CheckResult } from '../../engine/base/contract/checks.ts';
import { clientNames } from '../../engine/edge/client-files/names.ts';
import { CLIENT_CHECKS } from '../../engine/edge/selfcheck/clients.ts';
import { ChecksStopped, createGatewayClient, runChecks } from '../../engine/edge/selfcheck/run.ts';
import { ownPort } from '../support/net/own-port.ts';
import { ownDirectory } from '../support/own-directory.ts';
import { until } from '../support/until.ts';

const TOKEN = 'gw_0123456789abcdef';

const IDS = { client: 'clients.messages', codingcli: 'clients.coding_cli', buildcli: 'clients.build_cli' } as const;

let answer: (response: ServerResponse) => void;
const json = (status: number) => (response: ServerResponse) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
const server = createServer((request, response) => {
  request.resume();
  answer(response);
});
let root_url: string;

/** Puts a line for the shell into the place of a client, and runs the checks of clients. */
async function run(
  lines: string,
  more: { program?: keyof typeof IDS; seconds?: number; stop?: Promise<unknown> } = {},
): Promise<CheckResult | undefined> {
  const { program = 'buildcli', seconds = 60, stop } = more;
  const folder = ownDirectory();
  const path = join(folder, program);
  writeFileSync(path, `#!/bin/sh\nif [ "$1" = --version ]; then echo 'client 1.2'; exit; fi\n${lines}\n`);
  chmodSync(path, 0o700);
  const header_prefixes = ['vendor'];
  const asker = createGatewayClient({ root_url, token: TOKEN, header_prefixes, seconds: 60, total_seconds: 600 });
  stop?.then(() => asker.stop(new ChecksStopped('stopped')));
  const env = { PATH: `${folder}${delimiter}${process.env.PATH}`, PRIVATE: 'of the person', HOME: '/home/somebody' };
  const subject = {
    ...{ ...asker, root_url, model: 'coder-1', limit_token: undefined, header_prefixes, echo: undefined },
    clients: { env, names: [clientNames(undefined)], token: TOKEN, seconds },
  };
  const results: CheckResult[] = [];
  for await (const result of runChecks(CLIENT_CHECKS, subject)) results.push(result);
  asker.close();
  return results.find(({ id }) => id === IDS[program]);
}

describe('a single run of a coding client', {
  skip: process.platform === 'win32' && 'clients are not run there',
}, () => {
  before(async () => {
    root_url = `http://127.0.0.1:${await ownPort(server)}`;
    answer = json(200);
  });

  it('runs in a home of its own, with files for the gateway, the token in a variable and nothing of the user', async () => {
    const seen = ownDirectory();
    const result = await run(
      `env > ${seen}/env; cp "$HOME/.buildcli/config.toml" ${seen}; echo "$@" > ${seen}/args; echo selfcheck`,
    );
    assert.equal(result?.verdict, 'ok', result?.found);
    assert.deepEqual(result.details, [`${result.details?.[0]}`]);
    assert.match(result.details?.[0] ?? '', /buildcli, version client 1\.2$/);
    const env = readFileSync(join(seen, 'env'), 'utf8');
    const home = /^HOME=(.*)$/m.exec(env)?.[1] ?? '';
    assert.match(env, new RegExp(`^APPSCLI_SELFCHECK_TOKEN=${TOKEN}$`, 'm'));
    assert.doesNotMatch(env, /PRIVATE|somebody/);
    const config = readFileSync(join(seen, 'config.toml'), 'utf8');
    assert.match(config, new RegExp(`base_url = "${root_url}/v1"`));
    assert.match(config, /env_key = "APPSCLI_SELFCHECK_TOKEN"/);
    assert.ok(!config.includes(TOKEN));
    assert.match(readFileSync(join(seen, 'args'), 'utf8'), /^-p Join /);
    assert.ok(home !== '' && !existsSync(home), `${home} is left behind`);
  });

  it('has no tools with which a server could read files or run commands', async () => {
    const seen = join(ownDirectory(), 'args');
    await run(`printf '[%s]' "$@" > ${seen}`);
    assert.match(readFileSync(seen, 'utf8'), /\[--tools\]\[todo_write\]\[--deny\]\[\*\]$/);
    await run(`printf '[%s]' "$@" > ${seen}`, { program: 'codingcli' });
    assert.match(readFileSync(seen, 'utf8'), /\[--disable\]\[shell_tool\]\[--disable\]\[unified_exec\]\[--disable\]/);
    await run(`printf '[%s]' "$@" > ${seen}`, { program: 'client' });
    assert.match(readFileSync(seen, 'utf8'), /\[--tools\]\[\]$/);
  });

  it('fails at once when it opens a browser, and reports the host of the page and nothing more of it', async () => {
    const result = await run("xdg-open 'https://login.example.com/authorize?code=hidden-code'; sleep 600");
    assert.equal(result?.verdict, 'failed');
    assert.match(result.found, /opened a browser at login\.example\.com to sign in/);
    assert.ok(!JSON.stringify(result).includes('hidden-code'));
  });

  it('fails with the last lines of a client that gives up', async () => {
    const result = await run('echo "Error: 404: model coder-1 not found" >&2; exit 1', { program: 'codingcli' });
    assert.deepEqual([result?.verdict, result?.found], ['failed', 'exit code 1 and no reply']);
    assert.equal(result?.details?.[1], 'output: Error: 404: model coder-1 not found');
  });

  for (const [lines, verdict, found, seconds] of [
    ['"$BROWSER" https://login.example.com/; echo selfcheck', 'failed', /opened a browser/],
    ['sleep 600', 'failed', /^no reply within 0\.2 seconds$/, 0.2],
    ['true', 'failed', /^it exited without a reply$/],
    ['echo "I am a helpful assistant."', 'warning', /I am a helpful assistant/],
  ] as const) {
    it(`is ${verdict}: ${found.source}`, async () => {
      const result = await run(lines, { ...(seconds && { seconds }) });
      assert.equal(result?.verdict, verdict);
      assert.match(result.found, found);
    });
  }

  it('ends the client when the user stops the command', async () => {
    const pid = join(ownDirectory(), 'pid');
    const result = await run(`echo $$ > ${pid}; sleep 600`, {
      stop: until('it runs', () => existsSync(pid) && readFileSync(pid, 'utf8').endsWith('\n')),
    });
    assert.deepEqual([result?.verdict, result?.found], ['skipped', 'not run: stopped']);
    assert.throws(() => process.kill(Number(readFileSync(pid, 'utf8')), 0), /ESRCH/);
  });

  it('is not run where a short request is rejected, because clients retry again and again', async () => {
    const ran = join(ownDirectory(), 'ran');
    for (const [status, verdict] of [
      [401, 'failed'],
      [500, 'failed'],
      [404, 'skipped'],
    ] as const) {
      answer = json(status);
      const result = await run(`touch ${ran}; echo selfcheck`);
      assert.equal(result?.verdict, verdict, `${status}`);
      assert.match(result.found, /^not run[:,]/);
    }
    answer = (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>');
    assert.equal((await run(`touch ${ran}; echo selfcheck`))?.verdict, 'failed');
    assert.ok(!existsSync(ran));
    answer = json(200);
  });

  it('is skipped for a missing client', async () => {
    const empty = ownDirectory();
    mkdirSync(join(empty, 'buildcli'));
    const [, , check] = CLIENT_CHECKS;
    const clients = { env: { PATH: empty }, names: [clientNames(undefined)], token: TOKEN, seconds: 1 };
    assert.equal(check?.skipped?.({ clients } as never), 'no buildcli is on the PATH');
  });
});
