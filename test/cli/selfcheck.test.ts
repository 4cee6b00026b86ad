import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { before, beforeEach, describe, it } from 'node:test';
import { type SelfcheckOptions, selfcheck } from '../../engine/edge/cli/selfcheck.ts';
import type { SelfCheck, Subject } from '../../engine/edge/selfcheck/check.ts';
import { CHECKS } from '../../engine/edge/selfcheck/checks.ts';
import { ASSUMED_PRICE, planCosts } from '../../engine/edge/selfcheck/models.ts';
import { freePort } from '../support/free-port.ts';
import { ownPort } from '../support/net/own-port.ts';
import { ownDirectory } from '../support/own-directory.ts';
import { cli, collectingTerminal } from './support.ts';

const TOKEN = 'gw_0123456789abcdef';

let models: readonly object[];
let asked: { readonly path: string; readonly headers: NodeJS.Dict<string | string[]> }[] = [];
let upstream: string | undefined;
let status: number;
const gateway = createServer(async (request, response) => {
  asked.push({ path: request.url ?? '', headers: request.headers });
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  response.statusCode = status;
  response.setHeader('content-type', 'application/json');
  if (upstream !== undefined && request.method === 'POST') {
    const body = Buffer.concat(chunks);
    const answer = await fetch(upstream + request.url, { method: 'POST', body });
    response.end(await answer.text());
  } else response.end(JSON.stringify(request.url?.startsWith('/v1/models') ? { data: models } : { error: 'no' }));
});
let base_url: string;

const OK: SelfCheck = {
  id: 'models.list',
  title: 'The list of models',
  expected: 'a list',
  run: async () => ({ verdict: 'ok', found: 'it is there' }),
};
const DEAR: SelfCheck = {
  ...OK,
  id: 'messages.json',
  title: 'An answer',
  uses: { requests: 2, input: 1500, output: 200 },
};
const FAILS: SelfCheck = {
  ...OK,
  id: 'messages.stream',
  title: 'A stream',
  run: async () => ({ verdict: 'failed', found: 'it is not', remedy: 'mend it' }),
};
const SHOWS: SelfCheck = {
  ...OK,
  id: 'messages.tells',
  run: async ({ model, given_url, root_url }: Subject) => ({
    verdict: 'ok',
    found: JSON.stringify({ model, given_url, root_url }),
  }),
};

async function run(input: Partial<SelfcheckOptions>, checks: readonly SelfCheck[] = [OK], env: NodeJS.ProcessEnv = {}) {
  const { terminal, data, info } = collectingTerminal();
  const context = { terminal, env: { TOKEN, ...env }, stages: async () => [] };
  const options = { baseUrl: base_url, tokenEnv: 'TOKEN', maxUsd: 0.01, timeout: 60, ...input };
  const exit_code = await selfcheck(context, options, checks);
  return { exit_code, data: data(), info: info(), words: info().replaceAll('\n', ' ') };
}

describe('appscli selfcheck', () => {
  before(async () => {
    base_url = `http://127.0.0.1:${await ownPort(gateway)}`;
  });
  beforeEach(() => {
    models = [{ id: 'coder-1' }, { id: 'coder-2' }];
    asked = [];
    upstream = undefined;
    status = 200;
  });

  it('prints its requests and their cost, each result when known, and the totals', async () => {
    const { exit_code, data, info, words } = await run({}, [OK, FAILS]);
    assert.equal(exit_code, 1);
    assert.equal(
      data,
      'ok       The list of models: it is there\n' +
        'failed   A stream: it is not\n         expected  a list\n         help      mend it\n         check     messages.stream\n',
    );
    const model = 'coder-1 (the first of 2 on its list; choose another with --model)';
    const begins = `Checks ${base_url} with the model ${model}. Costs nothing: no requests to a model. `;
    assert.ok(words.startsWith(begins), info);
    assert.match(info, /\n1 ok, 1 failed in \d+\.\d s\n$/);
  });

  it('ends well when warnings and skipped checks are the worst, but not when nothing was checked at all', async () => {
    const skipped = { ...OK, skipped: () => 'name a token with --limit-token-env' };
    const warns = { ...OK, run: async () => ({ verdict: 'warning' as const, found: 'maybe', remedy: 'look' }) };
    assert.equal((await run({}, [warns, skipped])).exit_code, 0);
    assert.equal((await run({ strict: true }, [warns, skipped])).exit_code, 1);
    const { exit_code, info } = await run({}, [skipped]);
    assert.equal(exit_code, 1);
    assert.match(info, /No check ran\.\n$/);
  });

  it('sends the token to the gateway, with the most common header names and the neutral ones', async () => {
    await run({});
    const [{ path, headers } = { path: '', headers: {} }] = asked;
    assert.equal(path, '/v1/models?limit=1000');
    assert.equal(headers.authorization, `Bearer ${TOKEN}`);
    assert.equal(headers['vendor-version'], '2023-06-01');
    assert.equal(headers['anthropic-version'], '2023-06-01');
    assert.match(String(headers['user-agent']), /^appscli\//);
  });

  it('removes the path of an API from the address and reports it', async () => {
    const { data, info } = await run({ baseUrl: `${base_url}/v1/` }, [SHOWS]);
    assert.match(info, /Ignores \/v1 at the end of the address/);
    assert.deepEqual(JSON.parse(/\{.*\}/.exec(data.replace(/\n */g, ''))?.[0] ?? ''), {
      model: 'coder-1',
      given_url: `${base_url}/v1`,
      root_url: base_url,
    });
  });

  it('skips checks beyond the cost limit, and names the option', async () => {
    const { data, words } = await run({ maxUsd: 0.01 }, [OK, DEAR, { ...DEAR, id: 'messages.more' }]);
    assert.match(
      words,
      /Costs at most 0\.0075 USD: 2 requests to the model, 1,500 input and 200 output tokens, at 3 USD per million input and 15 per million output tokens, an assumed price: the gateway lists none\. 1 more check would exceed --max-usd 0\.01; --max-usd 0\.02 runs all\./,
    );
    assert.match(
      data,
      /ok {7}An answer: it is there\nskipped {2}An answer: its cost of up to 0\.0075 USD would exceed/,
    );
    assert.match(data, /help {6}--max-usd 0\.02 runs all checks/);
  });

  it('runs all checks but those of clients for less than one cent by default', () => {
    const cheap = CHECKS.filter(({ id }) => !id.startsWith('clients.'));
    const { usd, too_dear } = planCosts(cheap, ASSUMED_PRICE, 0.01);
    assert.deepEqual([...too_dear.keys()], []);
    assert.ok(usd < 0.01 && usd > 0);
  });

  it('uses the cheapest text model if the gateway reports prices, in each of their forms', async () => {
    models = [
      { id: 'large', pricing: { prompt: '0.000003', completion: '0.000015' } },
      { id: 'embed-small', pricing: { prompt: '0.00000001', completion: '0' } },
      { id: 'free', pricing: { prompt: '0', completion: '0' } },
      { id: 'auto', pricing: { prompt: '-1', completion: '-1' } },
      { id: 'small', input_cost_per_token: 2.5e-7, output_cost_per_token: 1.25e-6 },
      { id: 'middle', pricing: { input: 0.8, output: 4 } },
    ];
    assert.equal((await run({ json: true }, [DEAR])).info, '');
    models = [models[0]!, { id: 'small', pricing: { prompt: '0.00000025', completion: '0.00000125' } }];
    const result = await run({}, [DEAR]);
    assert.match(result.info, /with the model small \(the cheapest of 2 on its/);
    assert.match(
      result.words,
      /at 0\.25 USD per million input and 1\.25 per million output tokens, by the price list of the gateway\./,
    );
  });

  it('reports its requests, their maximum cost and every result to programs', async () => {
    const { data, info } = await run({ json: true, model: 'coder-2' }, [OK, DEAR]);
    const { version, checks, ...facts } = JSON.parse(data);
    assert.match(version, /^\d+\.\d+\.\d+/);
    assert.equal(info, '');
    assert.deepEqual(checks[0], {
      id: 'models.list',
      title: 'The list of models',
      expected: 'a list',
      verdict: 'ok',
      found: 'it is there',
      duration_ms: checks[0].duration_ms,
    });
    assert.deepEqual(
      { ...facts, duration_ms: 0 },
      {
        command: 'selfcheck',
        base_url,
        given_url: base_url,
        model: 'coder-2',
        model_reason: 'named',
        models_listed: 2,
        echo: null,
        costs_at_most: {
          usd: 0.0075,
          requests: 2,
          input_tokens: 1500,
          output_tokens: 200,
          max_usd: 0.01,
          price: { source: 'assumed', input_usd_per_million: 3, output_usd_per_million: 15 },
        },
        summary: { ok: 2, warning: 0, failed: 0, skipped: 0 },
        duration_ms: 0,
      },
    );
  });

  it('skips checks that need a model if none is listed or named, and distinguishes an empty list from a rejected one', async () => {
    models = [];
    const { data, words } = await run({}, [OK, DEAR]);
    assert.match(words, /with no model: the gateway lists none, and --model is not set/);
    assert.match(
      data,
      /skipped {2}An answer: no model available: fix the model list, or name a model with\n {9}--model/,
    );
    status = 401;
    const refused = await run({}, [DEAR]);
    assert.match(refused.words, /with no model: the gateway has no model list, and --model is not set/);
    assert.match(refused.data.replace(/\s+/g, ' '), /no model available: fix the model list/);
  });

  it('runs only the named checks, by their ids or prefixes', async () => {
    const checks = [OK, DEAR, FAILS, { ...OK, id: 'messages' }];
    const ids = async (only: readonly string[]) =>
      JSON.parse((await run({ json: true, only }, checks)).data).checks.map(({ id }: SelfCheck) => id);
    assert.deepEqual(await ids(['messages']), ['messages.json', 'messages.stream', 'messages']);
    assert.deepEqual(await ids(['models.list', 'messages.stream']), ['models.list', 'messages.stream']);
    await assert.rejects(
      ids(['message.stream']),
      /there is no check message\.stream; did you mean `messages\.stream`\?/,
    );
  });

  it('lists the checks without sending a request', async () => {
    const { exit_code, stdout } = await cli(['selfcheck', '--list'], { env: {} });
    assert.equal(exit_code, 0);
    assert.match(stdout, /^check +what is checked +tokens in +out\n/);
    assert.match(stdout, /^clients\.build_cli +One run of the build CLI +60000 +2000$/m);
  });

  it('exits with 69 for an unreachable gateway, with a report of the reason', async () => {
    const closed = `http://127.0.0.1:${await freePort()}`;
    const { exit_code, data } = await run({ baseUrl: closed });
    assert.equal(exit_code, 69);
    assert.match(data, /: no response: connection refused\n.*help +nothing listens there/s);
  });

  it('reports a wrong command line, and repeats no token', async () => {
    const refused = async (input: Partial<SelfcheckOptions>, env?: NodeJS.ProcessEnv) => {
      const error = await run(input, [OK], env).catch((each) => each);
      assert.equal(error.exit_code, 64, String(error));
      return String(error.message);
    };
    assert.match(await refused({ tokenEnv: 'NOT_SET' }), /--token-env: the variable NOT_SET is not set/);
    const given_token = await refused({ tokenEnv: TOKEN });
    assert.match(given_token, /expects the name of an environment variable, not a token/);
    assert.ok(!given_token.includes(TOKEN));
    assert.match(
      await refused({ limitTokenEnv: 'ODD' }, { ODD: 'two words' }),
      /--limit-token-env: the variable ODD contains no valid token/,
    );
    assert.match(await refused({ echo: 'nowhere' }), /--echo expects a host and port/);
    assert.match(await refused({ baseUrl: 'gw.example.com' }), /not an absolute URL/);
  });

  it('requests a token without a sign-in, and explains how to get one', async () => {
    const { exit_code, stderr } = await cli(['selfcheck', '--base-url', base_url], {
      env: { APPSCLI_CREDENTIALS: join(ownDirectory(), 'credentials.json') },
    });
    assert.equal(exit_code, 64);
    assert.match(stderr, /--token-env, or sign in: appscli login --base-url/);
  });

  it('uses the token of a sign-in where none is named', async () => {
    const APPSCLI_CREDENTIALS = join(ownDirectory(), 'credentials.json');
    const expires_at = new Date(Date.now() + 3_000_000).toISOString();
    const stored = { access_token: 'access-of-a-sign-in', expires_at, lifetime_seconds: 3600 };
    const file = JSON.stringify({ version: 1, gateways: { [base_url]: stored } });
    writeFileSync(APPSCLI_CREDENTIALS, file, { mode: 0o600 });
    const { terminal } = collectingTerminal();
    const context = { terminal, env: { APPSCLI_CREDENTIALS }, stages: async () => [] };
    const input = { baseUrl: `${base_url}/v1`, maxUsd: 0, timeout: 60 };
    assert.equal(await selfcheck(context, input, [OK]), 0);
    assert.equal(asked[0]?.headers.authorization, 'Bearer access-of-a-sign-in');
  });

  it('costs nothing where the gateway forwards to the echo upstream, and reports otherwise', async () => {
    const port = await freePort();
    upstream = `http://127.0.0.1:${port}`;
    const reached = await run({ echo: `127.0.0.1:${port}`, maxUsd: 0 }, [DEAR]);
    assert.match(reached.info, /forwards this model to the echo upstream/);
    assert.match(reached.info, /Costs nothing: 2 requests to the model/);
    assert.match(reached.data, /^ok/);
    upstream = undefined;
    const missed = await run({ echo: `127.0.0.1:${port}`, maxUsd: 0 }, [OK, DEAR]);
    assert.match(missed.words, /does not forward coder-1 to the echo upstream at .*: configure an upstream/);
    assert.match(missed.data, /skipped {2}An answer/);
  });

  it('reports its results when stopped, and exits with 1', async () => {
    // Other listeners of this process must not get it.
    const interrupt = () => process.listeners('SIGINT').at(-1)?.('SIGINT');
    const stops: SelfCheck = {
      ...OK,
      async run() {
        interrupt();
        return { verdict: 'ok', found: 'it is there' };
      },
    };
    const { exit_code, data } = await run({}, [stops, OK]);
    assert.equal(exit_code, 1);
    assert.equal(data, 'ok       The list of models: it is there\nskipped  The list of models: not run: stopped\n');
  });
});
