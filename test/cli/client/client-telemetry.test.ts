import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { parse } from '@decimalturn/toml-patch';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { token } from '../../../engine/edge/cli/sign-in.ts';
import { credentialsFor, keep, NOW, startScriptedGateway } from '../../client/scripted-gateway.ts';
import { cli } from '../support.ts';
import { backend, buildCli, codingCli, home, messages, piped, put, read, remove, useBackend } from './set-up.ts';

const BASE = 'https://gateway.example.com';
const TOKEN = 'gw_planted_token_1';
const HEADER = `Authorization=Bearer ${TOKEN}`;

useBackend({ input: piped(TOKEN), program: { runtime: '/opt/node', script: '/opt/appscli.js' } });

const ANOTHER_HEADER = 'Authorization=Bearer gw_planted_token_2';
const another = { input: piped('gw_planted_token_2') };
const readToml = (...parts: string[]) => JSON.parse(JSON.stringify(parse(read(...parts))));

const SIGNALS = ['metrics', 'logs'] as const;
const wish = { baseUrl: BASE, model: 'coder-1', contextWindow: 500_000, write: true, telemetry: SIGNALS } as const;
const { telemetry: _, ...silent } = wish;

const VARIABLES = {
  CLIENT_CODE_ENABLE_TELEMETRY: '1',
  OTEL_METRICS_EXPORTER: 'otlp',
  OTEL_LOGS_EXPORTER: 'otlp',
  OTEL_TRACES_EXPORTER: 'none',
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
  OTEL_EXPORTER_OTLP_ENDPOINT: BASE,
  OTEL_LOG_USER_PROMPTS: '0',
  OTEL_LOG_ASSISTANT_RESPONSES: '0',
  OTEL_LOG_TOOL_DETAILS: '0',
  OTEL_LOG_TOOL_CONTENT: '0',
  OTEL_LOG_RAW_API_BODIES: '0',
};

describe('telemetry of the Messages client', () => {
  const SETTINGS = ['.client', 'settings.json'];
  const settings = () => JSON.parse(read(...SETTINGS));
  const telemetryOf = (env: Record<string, string>) =>
    Object.fromEntries(Object.entries(env).filter(([name]) => /OTEL|TELEMETRY/.test(name)));

  test('goes to the gateway with the token of the file, or has its headers from the key helper, asked every minute; no texts', async () => {
    assert.equal(await messages({ ...wish, tokenStdin: true }), 0);
    assert.deepEqual(telemetryOf(settings().env), { ...VARIABLES, OTEL_EXPORTER_OTLP_HEADERS: HEADER });
    assert.match(backend.info(), /will send telemetry to https:\/\/gateway\.example\.com, which adds your identity/);
    assert.match(backend.info(), /no texts of prompts, responses and tools/);
    assert.doesNotMatch(backend.info(), /planted/);
    await messages({ ...wish, keyHelper: true });
    const { env, apiKeyHelper, otelHeadersHelper } = settings();
    assert.equal(apiKeyHelper, `/opt/node /opt/appscli.js token --base-url ${BASE}`);
    assert.equal(otelHeadersHelper, `/opt/node /opt/appscli.js token --headers --base-url ${BASE}`);
    const time = { CLIENT_CODE_OTEL_HEADERS_HELPER_DEBOUNCE_MS: '60000' };
    assert.deepEqual(telemetryOf(env), { ...VARIABLES, ...time });
  });

  test('needs no credential of its own where people sign in, and can have traces', async () => {
    await messages({ ...wish, signIn: true, telemetry: ['traces'] });
    const only_traces = { OTEL_METRICS_EXPORTER: 'none', OTEL_LOGS_EXPORTER: 'none', OTEL_TRACES_EXPORTER: 'otlp' };
    assert.deepEqual(telemetryOf(settings().env), {
      ...VARIABLES,
      ...only_traces,
      CLIENT_CODE_ENHANCED_TELEMETRY_BETA: '1',
    });
    await messages({ ...wish, signIn: true });
    assert.deepEqual(telemetryOf(settings().env), VARIABLES);
  });

  test('puts away what switches texts on, and other headers', async () => {
    const before = { env: { OTEL_LOG_USER_PROMPTS: '1', MINE: '1' }, otelHeadersHelper: '/mine', theme: 'dark' };
    put(JSON.stringify(before), ...SETTINGS);
    await messages({ ...wish, tokenStdin: true });
    assert.equal(settings().env.OTEL_LOG_USER_PROMPTS, '0');
    assert.equal(settings().otelHeadersHelper, undefined);
    await messages({ ...wish, keyHelper: true });
    assert.equal(settings().env.OTEL_EXPORTER_OTLP_HEADERS, undefined);
    assert.deepEqual([settings().theme, settings().env.MINE], ['dark', '1']);
  });

  test('has the credential of the client, whatever that is changed to', async () => {
    await messages({ ...wish, tokenStdin: true });
    await messages({ ...silent, tokenStdin: true }, another);
    assert.deepEqual(telemetryOf(settings().env), { ...VARIABLES, OTEL_EXPORTER_OTLP_HEADERS: ANOTHER_HEADER });
    await messages({ ...silent, keyHelper: true });
    assert.equal(settings().env.OTEL_EXPORTER_OTLP_HEADERS, undefined);
    assert.match(settings().otelHeadersHelper, /token --headers/);
    await messages({ ...silent, signIn: true });
    assert.deepEqual(telemetryOf(settings().env), VARIABLES);
    assert.equal(settings().otelHeadersHelper, undefined);
  });

  test('is taken away again, and stays as it is where nobody speaks of it', async () => {
    put('{"theme": "dark"}', ...SETTINGS);
    for (const way of [{ tokenStdin: true }, { keyHelper: true }] as const) {
      await messages({ ...wish, ...way });
      const on = read(...SETTINGS);
      await messages({ ...silent, ...way });
      assert.equal(read(...SETTINGS), on);
      await messages({ ...wish, ...way, telemetry: false });
      assert.doesNotMatch(read(...SETTINGS), /OTEL|otel|TELEMETRY/);
    }
    await messages({ ...wish, keyHelper: true });
    await remove('messages', BASE);
    assert.deepEqual(settings(), { theme: 'dark' });
    assert.doesNotMatch(backend.info(), /planted/);
  });

  test('of another collector stays when that for the gateway is taken away', async () => {
    const others = { env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://mine.example.com', OTEL_LOGS_EXPORTER: 'otlp' } };
    put(JSON.stringify(others), ...SETTINGS);
    await messages({ ...wish, tokenStdin: true, telemetry: false });
    assert.deepEqual(telemetryOf(settings().env), others.env);
    await remove('messages', BASE);
    assert.deepEqual(settings(), others);
  });

  test('is shown for a shell with the token of another variable', async () => {
    const shown = { ...wish, write: undefined, shell: 'sh' } as never;
    await messages(shown);
    const lines = backend.data().split('\n');
    assert.ok(lines.includes(`export OTEL_EXPORTER_OTLP_ENDPOINT='${BASE}'`));
    assert.ok(lines.includes(`export OTEL_EXPORTER_OTLP_HEADERS='Authorization=Bearer '"$RELAY_API_KEY"`));
    assert.match(backend.info(), /Other OpenTelemetry programs in this shell/);
  });

  test('in a file without a token explains how the client gets one, and warns of variables that override the file', async () => {
    await messages({ ...wish, apiKeyEnv: 'OURS' });
    assert.match(backend.info(), /OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer \$OURS"/);
    backend.env.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT = 'https://mine.example.com';
    await messages({ ...wish, tokenStdin: true });
    assert.match(backend.info(), /OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is set in your environment: remove it/);
  });
});

describe('telemetry of the coding CLI', () => {
  const CONFIG = ['.codingcli', 'config.toml'];
  const otel = () => readToml(...CONFIG).otel;
  const exporter = (signal: string, headers?: object) => ({
    'otlp-http': { endpoint: `${BASE}/v1/${signal}`, protocol: 'binary', ...headers },
  });
  const both = (headers?: object) => ({
    ...{ log_user_prompt: false, metrics_exporter: exporter('metrics', headers), exporter: exporter('logs', headers) },
  });

  test('goes to the gateway, with the token of the client, whatever that is, in a file that only its user can read', async () => {
    await codingCli({ ...wish, tokenStdin: true });
    const headers = { headers: { authorization: `Bearer ${TOKEN}` } };
    assert.deepEqual(otel(), both(headers));
    assert.equal(statSync(home(...CONFIG)).mode & 0o077, 0);
    assert.doesNotMatch(backend.info(), /planted/);
    assert.doesNotMatch(backend.info(), /OTEL_EXPORTER_OTLP_HEADERS/);
    await codingCli({ ...silent, tokenStdin: true }, another);
    assert.deepEqual(otel(), both({ headers: { authorization: 'Bearer gw_planted_token_2' } }));
    assert.doesNotMatch(backend.info(), /planted/);
  });

  test('does not have the headers that were meant for a collector elsewhere', async () => {
    const elsewhere =
      'endpoint = "https://elsewhere.example/v1/logs"\nprotocol = "json"\nheaders = { key = "theirs" }\n';
    put(`[otel.exporter.otlp-http]\n${elsewhere}`, ...CONFIG);
    await codingCli({ ...silent, tokenStdin: true });
    assert.equal(otel().exporter['otlp-http'].headers.key, 'theirs');
    await codingCli({ ...wish, tokenStdin: true });
    assert.deepEqual(otel().exporter, exporter('logs', { headers: { authorization: `Bearer ${TOKEN}` } }));
  });

  test('without a token in the file explains how the client gets one', async () => {
    await codingCli({ ...wish, apiKeyEnv: 'OURS' });
    assert.deepEqual(otel(), both());
    assert.match(backend.info(), /OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer \$OURS"/);
    await codingCli({ ...wish, keyHelper: true });
    assert.match(backend.info(), /Bearer \$\(appscli token --base-url https:\/\/gateway\.example\.com\)"/);
  });

  test('is taken away again, and that of another collector stays', async () => {
    const mine = '[otel.trace_exporter.otlp-http]\nendpoint = "https://mine.example.com"\nprotocol = "binary"\n';
    put(`[tui]\ntheme = "dark"\n\n${mine}`, ...CONFIG);
    await codingCli({ ...wish, tokenStdin: true });
    await codingCli({ ...wish, tokenStdin: true, telemetry: false });
    const left = { trace_exporter: { 'otlp-http': { endpoint: 'https://mine.example.com', protocol: 'binary' } } };
    assert.deepEqual(otel(), left);
    await codingCli({ ...wish, tokenStdin: true });
    await remove('coding-cli', BASE);
    assert.deepEqual(readToml(...CONFIG), { tui: { theme: 'dark' }, otel: left });
    assert.doesNotMatch(backend.info(), /planted/);
  });
});

describe('telemetry of the build CLI', () => {
  const CONFIG = ['.buildcli', 'config.toml'];
  const telemetry = () => readToml(...CONFIG).telemetry;

  test('goes to the gateway, whose token no file can hold', async () => {
    await buildCli({ ...wish, tokenStdin: true });
    assert.deepEqual(telemetry(), {
      otel_enabled: true,
      otel_metrics_exporter: 'otlp',
      otel_logs_exporter: 'otlp',
      otel_endpoint: BASE,
      otel_protocol: 'http/protobuf',
      otel_log_user_prompts: false,
      otel_log_assistant_responses: false,
      otel_log_tool_details: false,
      otel_log_tool_content: false,
    });
    assert.match(backend.info(), /OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer <API_KEY>"/);
  });

  test('has no traces', async () => {
    await buildCli({ ...wish, telemetry: ['metrics', 'traces'] });
    assert.match(backend.info(), /sends no traces/);
    const traces = buildCli({ ...wish, telemetry: ['traces'] });
    await assert.rejects(traces, { exit_code: 64, message: /sends no traces/ });
  });

  test('is taken away again, and what is not about the gateway stays', async () => {
    put('[telemetry]\ntrace_upload = false\n', ...CONFIG);
    await buildCli(wish);
    await buildCli({ ...wish, telemetry: false });
    assert.deepEqual(telemetry(), { trace_upload: false });
    await buildCli(wish);
    await remove('build-cli', BASE);
    assert.deepEqual(readToml(...CONFIG), { telemetry: { trace_upload: false } });
  });
});

describe('a gateway that is checked before telemetry is switched on', () => {
  async function askedGateway(answer: object) {
    const gateway = await startScriptedGateway();
    gateway.scripts.set('/v1/models?limit=1000', () => ({ body: { data: [{ id: 'coder-1' }] } }));
    for (const signal of SIGNALS) gateway.scripts.set(`/v1/${signal}`, () => answer);
    return { gateway, asks: { baseUrl: gateway.url, check: true, apiKey: TOKEN } as const };
  }

  test('gets only the check, and its response is reported', async () => {
    const { gateway, asks } = await askedGateway({ body: {} });
    gateway.scripts.set('/v1/logs', () => ({ body: { partialSuccess: { errorMessage: 'nothing is sent on' } } }));
    assert.equal(await buildCli({ ...wish, ...asks }), 0);
    assert.match(backend.info(), /accepts metrics\n/);
    assert.match(backend.info(), /accepts logs: nothing is sent on\n/);
    const [question] = gateway.to('/v1/metrics');
    assert.deepEqual([question!.headers.authorization, question!.text], [`Bearer ${TOKEN}`, '{}']);
  });

  test("gets a check of the signals in the client's file if no option names signals", async () => {
    const { gateway, asks } = await askedGateway({ body: {} });
    const given = { ...silent, ...asks };
    for (const client of [buildCli, codingCli, messages]) {
      await client(given);
      assert.deepEqual(gateway.to('/v1/logs'), []);
      await client({ ...given, telemetry: ['logs'] });
      gateway.requests.splice(0);
      await client(given);
      assert.deepEqual([gateway.to('/v1/logs').length, gateway.to('/v1/metrics').length], [1, 0]);
      gateway.requests.splice(0);
    }
    const printed = backend.info().match(/the client's file sends (?:no telemetry|logs) to/g);
    assert.deepEqual(printed?.length, 6);
  });

  test('that takes none ends it with what to do', async () => {
    const { asks } = await askedGateway({ status: 404, body: {} });
    await assert.rejects(buildCli({ ...wish, ...asks }), {
      message: /accepts no metrics .*--telemetry/,
    });
    assert.ok(!existsSync(home('.buildcli')));
  });
});

describe('the program', () => {
  const run = async (...args: string[]) => {
    const all = ['client', 'build-cli', '--base-url', BASE, '--model', 'coder-1', ...args];
    const { stdout, stderr } = await cli(all, { env: backend.env });
    return { output: stdout + stderr };
  };

  test('takes signals by name, and metrics and logs without one', async () => {
    const { output } = await run('--print', '--telemetry');
    assert.match(output, /otel_metrics_exporter = "otlp"\notel_logs_exporter = "otlp"/);
    const only = await run('--print', '--telemetry', 'logs');
    assert.match(only.output, /otel_metrics_exporter = "none"\notel_logs_exporter = "otlp"/);
    const wrong = await run('--print', '--telemetry', 'metrics,log');
    assert.match(wrong.output, /Expected some of metrics, logs, traces/);
    const none = await run('--print', '--no-telemetry');
    assert.doesNotMatch(none.output, /otel_/);
    assert.doesNotMatch((await run('--print')).output, /otel_|telemetry/);
  });
});

describe('appscli token --headers', () => {
  test('prints the header with the token as a JSON object, for clients that run a command for headers', async () => {
    const gateway = await startScriptedGateway();
    keep(backend, { [gateway.url]: credentialsFor(3600) });
    const clock = frozenClock(NOW);
    assert.equal(await token({ ...backend.context, clock }, { baseUrl: gateway.url, headers: true }), 0);
    assert.deepEqual(JSON.parse(backend.data()), { Authorization: 'Bearer access-0' });
  });
});
