import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import type { Answer, GatewayConfig, ResponseHead, UpstreamConfig } from '../../engine/api.ts';
import { ERRORS, StageError } from '../../engine/base/contract/errors.ts';
import { createManagedPolicies } from '../../engine/domain/policies/managed-policies.ts';
import { openStage, type ServiceStubs, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import forward from '../../stages/forward.ts';
import includeUsage from '../../stages/include-usage.ts';
import managedSettings from '../../stages/managed-settings.ts';
import reject from '../../stages/reject.ts';
import reportHealth from '../../stages/report-health.ts';
import respond from '../../stages/respond.ts';
import { policy } from '../policies/support/policies.ts';
import { raisedBy } from '../support/raised.ts';

function answered(options: object): Answer {
  const stage = openStage(respond, { options });
  return stage.hooks.request!(stage.request({})) as Answer;
}

function problems(options: object): readonly string[] {
  const check = respond.check as (options: object, config: GatewayConfig) => readonly string[];
  return check({ status: 200, headers: {}, ...options }, stageConfig());
}

describe('respond', () => {
  it('responds 200 with an empty body by default', () => {
    assert.deepEqual(answered({}), { kind: 'answer', status: 200, headers: {}, body: '' });
  });

  it('sends JSON and plain text with their content types', () => {
    for (const json of [{ status: 'ok' }, [], 'word', 0, false, null]) {
      const { headers, body } = answered({ json });
      assert.equal(headers['content-type'], 'application/json');
      assert.deepEqual(JSON.parse(body), json);
    }
    const { status, headers, body } = answered({ status: 503, text: 'Zurück um 18 Uhr.' });
    assert.deepEqual([status, headers['content-type'], body], [503, 'text/plain; charset=utf-8', 'Zurück um 18 Uhr.']);
  });

  it('sends its headers, including another content type', () => {
    const own = { 'Content-Type': 'text/markdown', 'Retry-After': '60' };
    const { headers } = answered({ text: '# Hello', headers: own });
    assert.deepEqual(headers, { 'content-type': 'text/markdown', 'retry-after': '60' });
  });

  it('rejects two bodies, a body where HTTP has none, and headers of the connection', () => {
    assert.deepEqual(problems({ json: null, text: 'a' }), ['`json` and `text` exclude each other: remove one of them']);
    assert.match(problems({ status: 204, text: '' })[0]!, /status 204 has no body/);
    const [framing] = problems({ headers: { 'Content-Length': '5' } });
    assert.match(framing!, /only the server sets the header Content-Length/);
    assert.deepEqual(problems({ status: 304, headers: { etag: '"1"' } }), []);
  });
});

function raised(options: object) {
  const stage = openStage(reject, { options });
  return raisedBy(() => stage.hooks.request!(stage.request()));
}

describe('reject', () => {
  it("raises the named error with the operator's message and status", () => {
    const asked = { error: 'spend_limit_exceeded', message: 'Ask finance for more.', status: 402 };
    const { code: error, message, status } = raised(asked);
    assert.deepEqual({ error, message, status }, asked);
  });

  it('can raise every error of the catalogue, by default with its message and status', () => {
    for (const [error, { meaning, status: usual }] of Object.entries(ERRORS)) {
      const { code, message, status } = raised({ error });
      assert.deepEqual([code, message, status], [error, `${meaning}.`, usual]);
    }
  });
});

const config = stageConfig();
const [vendor] = config.upstreams;
const chat_only = { ...vendor!, name: 'chat-only', type: 'compat', protocols: ['chat'] } as const;
const stage = openStage(forward, { config: { ...config, upstreams: [vendor!, chat_only] } });

function ask(protocol: string, upstream: string, upstream_protocol?: string) {
  const facts = {
    'request.id': 'req_1',
    'request.protocol': protocol,
    'request.model': 'coder-1',
    'route.upstream': upstream,
    'route.upstream_model': 'coder-1',
    ...(upstream_protocol !== undefined && { 'route.protocol': upstream_protocol }),
  };
  const ctx = stage.request({ facts, body: '{"model":"coder-1"}' } as never);
  return { ctx, answered: Promise.resolve(stage.hooks.request!(ctx)) };
}

describe('a request without translation', () => {
  const TRANSLATE = 'add the stage `translate` above `forward`';
  for (const [protocol, upstream, spoken, remedy, reported] of [
    ['chat', 'main', 'messages', TRANSLATE, /Use the Messages API: POST \/v1\/messages\.$/],
    ['responses', 'chat-only', 'chat', TRANSLATE, /Use the chat completions API: POST \/v1\/chat\/completions\.$/],
    ['messages', 'chat-only', 'chat', TRANSLATE, /Use the chat completions API: POST \/v1\/chat\/completions\.$/],
    ['count_tokens', 'chat-only', 'chat', 'cannot count tokens', /^The upstream of this model cannot count tokens\./],
  ] as const) {
    test(`from protocol ${protocol} to ${upstream} is rejected, also when no stage set the protocol`, async () => {
      for (const said of [spoken, undefined]) {
        const { ctx, answered } = ask(protocol, upstream, said);
        const { code, message, cause } = await answered.then(
          () => assert.fail('it was sent'),
          (error) => error as StageError & { readonly cause: Error },
        );
        assert.equal(code, 'not_supported');
        assert.match(message, reported);
        assert.ok(!message.includes(upstream), 'clients do not learn the name of the upstream');
        assert.match(cause.message, new RegExp(`"${upstream}" speaks ${spoken} and not.*${remedy}`, 's'));
        const logged = stage.log.at(-1);
        assert.equal(logged?.message, 'an upstream was skipped');
        assert.match(JSON.stringify(logged.fields), /"reason":"the upstream|"reason":".*speaks/);
        assert.deepEqual(ctx.written, {}, 'nothing was sent');
      }
    });
  }
});

const FACTS = {
  'request.protocol': 'chat',
  'request.stream': true,
  'route.protocol': 'chat',
  'route.upstream': 'main',
} as const;

function compat(stream_usage: boolean): UpstreamConfig[] {
  const [main] = stageConfig().upstreams;
  return [{ ...main!, type: 'compat', protocols: ['chat'], supports: { ...main!.supports, stream_usage } }];
}

async function asked(
  body: string,
  { facts = {}, stream_usage = true }: { facts?: object; stream_usage?: boolean } = {},
) {
  const stage = openStage(includeUsage, { config: stageConfig({ upstreams: compat(stream_usage) }) });
  const ctx = stage.request({ facts: { ...FACTS, ...facts }, body });
  await stage.hooks.attempt!(ctx);
  return { sent: ctx.body!.bytes.toString(), ctx };
}

function head(content_type: string): ResponseHead {
  return { status: 200, get: () => content_type, set() {}, remove() {}, replaceAll() {} };
}

describe('a stream without a request for usage', () => {
  const ADDED = '"stream_options":{"include_usage":true}';
  for (const [what, body, expected] of [
    ['has the options added', '{ "model":"m",\n"messages":[]}', `{${ADDED}, "model":"m",\n"messages":[]}`],
    ['has null replaced', '{"stream_options":null,"x":1.0}', `{${ADDED},"x":1.0}`],
    ['has false replaced', '{"stream_options":{"include_usage":false}}', `{${ADDED}}`],
    ['has the key added where there is none', '{ }', `{${ADDED} }`],
    [
      'keeps the options it has',
      '{"stream_options": {"include_obfuscation": false}, "x": 1.0}',
      '{"stream_options": {"include_obfuscation":false,"include_usage":true}, "x": 1.0}',
    ],
  ] as const) {
    it(`${what}, and changes nothing else`, async () => {
      const { sent, ctx } = await asked(body);
      assert.deepEqual([sent, ctx.rewrites], [expected, ['stream_options']]);
    });
  }

  it('converts the response only if it is a stream', async () => {
    const { ctx } = await asked('{}');
    assert.notEqual(ctx.makeConverter(head('text/event-stream; charset=utf-8')), undefined);
    assert.equal(ctx.makeConverter(head('application/json')), undefined);
  });
});

describe('nothing is touched', () => {
  const body = '{"model":"m","stream_options":{"include_usage":true}}';
  const cases: readonly [when: string, body: string, options: { facts?: object; stream_usage?: boolean }][] = [
    ['when the client asks itself', body, {}],
    ['without a stream', '{}', { facts: { 'request.stream': false } }],
    ['when the upstream cannot report it', '{}', { stream_usage: false }],
    ['when the request is translated', '{}', { facts: { 'route.protocol': 'messages' } }],
    ['on other protocols', '{}', { facts: { 'request.protocol': 'messages', 'route.protocol': 'messages' } }],
  ];
  for (const [when, sent, options] of cases) {
    it(when, async () => {
      const result = await asked(sent, options);
      assert.equal(result.sent, sent);
      assert.equal(result.ctx.converts_response, false);
    });
  }
});

const managedConfig = stageConfig({ policies: { managed: { enabled: true, directory: '/policies' } } });
const policies = createManagedPolicies(managedConfig, [policy('staff', { b: 1, a: 2 }, { groups: ['staff'] })]);

function askForPolicy(headers: Record<string, string | string[]> = {}, groups = ['staff']): Answer {
  const stage = openStage(managedSettings, { config: managedConfig, policies });
  const facts = { 'principal.email': 'dev@example.com', 'principal.groups': groups };
  return stage.hooks.request!(stage.request({ headers, facts })) as Answer;
}

const { etag } = policies.of({ groups: ['staff'], email: '' })!;

describe('managed-settings', () => {
  it('responds with uuid, checksum and settings, and with the checksum as the entity tag', () => {
    const response = askForPolicy();
    const { uuid, checksum, settings } = JSON.parse(response.body);
    assert.equal(response.status, 200);
    assert.match(uuid, /^[0-9a-f-]{36}$/);
    assert.match(checksum, /^sha256:[0-9a-f]{64}$/);
    assert.deepEqual(settings, { a: 2, b: 1 });
    assert.deepEqual(response.headers, {
      etag: `"${checksum}"`,
      'cache-control': 'private, no-cache',
      'content-type': 'application/json',
    });
  });

  it('responds 304 without a body when the client names the current entity tag', () => {
    for (const value of [etag, `W/${etag}`, `"x", ${etag}`, ` ${etag} ,"y"`, '*', `"x",W/${etag}`]) {
      const response = askForPolicy({ 'if-none-match': value });
      assert.deepEqual([response.status, response.body, response.headers.etag], [304, '', etag], value);
    }
  });

  it('responds in full to everything else', () => {
    for (const value of ['', '"x"', etag.slice(1, -1), `"${etag}"`, `w/${etag}`, `x${etag}`, '**', `"*"`, ',,,']) {
      assert.equal(askForPolicy({ 'if-none-match': value }).status, 200, value);
    }
  });

  it('responds 404 to callers without a policy', () => {
    const isNone = (error: unknown) => error instanceof StageError && error.code === 'policy_not_found';
    assert.throws(() => askForPolicy({}, ['guests']), isNone);
    assert.throws(() => askForPolicy({ 'if-none-match': '*' }, []), isNone);
  });
});

async function askForHealth(checks: readonly string[], health: ServiceStubs['health'] & {}): Promise<Answer> {
  const stage = openStage(reportHealth, { options: { checks }, health });
  return (await stage.hooks.request!(stage.request())) as Answer;
}

const down = async () => ({ database: { ok: false, detail: 'connect ECONNREFUSED db.internal:5432' } });

describe('report-health', () => {
  it("responds 503 without the database's address during an outage", async () => {
    const response = await askForHealth(['database'], down);
    assert.equal(response.status, 503);
    assert.equal(response.headers['cache-control'], 'no-store');
    assert.deepEqual(JSON.parse(response.body), { status: 'unavailable', checks: { database: 'unavailable' } });
    assert.doesNotMatch(response.body, /db\.internal|5432/);
  });

  for (const [what, detail, expected] of [
    ['configuration', 'C1001', { state: 'reload_failed', failed_reloads: 1 }],
    ['upstreams', 'api.internal', { main: { state: 'open', until: '2027-01-31T08:00:05.000Z' } }],
  ] as const) {
    it(`reports public details of ${what}, without effect on the status`, async () => {
      const stage = openStage(reportHealth, {
        options: { checks: ['database'], includes: [what] },
        health: async () => ({ database: { ok: true }, [what]: { ok: true, detail, public_details: expected } }),
      });
      const response = (await stage.hooks.request!(stage.request())) as Answer;
      assert.equal(response.status, 200);
      assert.deepEqual(JSON.parse(response.body), { status: 'ok', checks: { database: 'ok' }, [what]: expected });
    });
  }

  it('responds 503 when the check itself fails', async () => {
    const response = await askForHealth(['database'], async () => assert.fail('the check failed'));
    assert.equal(response.status, 503);
  });

  it('shares one check among concurrent probes, and checks again afterwards', async () => {
    let checks = 0;
    const stage = openStage(reportHealth, {
      options: { checks: ['database'] },
      health: async () => {
        checks++;
        return { database: { ok: true } };
      },
    });
    const probe = () => stage.hooks.request!(stage.request());
    await Promise.all([probe(), probe(), probe()]);
    assert.equal(checks, 1);
    await probe();
    assert.equal(checks, 2);
  });
});
