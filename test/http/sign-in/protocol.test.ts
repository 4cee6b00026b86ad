import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { protocolRoute, signInOff } from '../../../engine/edge/http/sign-in/index.ts';
import { protocolText } from '../../../engine/edge/http/sign-in/protocol.ts';
import { quietLog } from '../../support/store.ts';
import { askAt, ISSUER, serve, signInConfig } from './support.ts';

const clock = frozenClock('2026-11-21T12:00:00Z');
const pipelines = [
  {
    summary: 'Forwards Messages requests | charged.',
    match: { methods: ['POST'], paths: ['/v1/messages', '/other'], protocol: 'messages' },
  },
  { summary: 'Lists models.', match: { methods: ['GET', 'HEAD'], paths: ['/v1/models'], protocol: 'models' } },
] as const;
const config = signInConfig();
const without_sign_in = { ...config, auth: undefined } as unknown as typeof config;

describe('the protocol text', () => {
  const text = protocolText({ config, version: '9.8.7', pipelines });

  it('names the version, the public URL and every endpoint', () => {
    assert.ok(text.includes(`appscli 9.8.7 at ${ISSUER}`));
    const served = ['/v1/messages', '/other', '/v1/models', '/protocol', '/oauth/token', '/oauth/revoke', '/device'];
    for (const path of served) assert.ok(text.includes(`${path}\``), path);
  });

  it('has tables that a summary cannot break', () => {
    assert.ok(text.includes('Forwards Messages requests \\| charged.'));
    const cells = (line: string) => line.replaceAll('\\|', '').split('|').length;
    const tables = text
      .trimEnd()
      .split('\n\n')
      .filter((block) => block.startsWith('| '));
    assert.equal(tables.length, 6);
    for (const lines of tables.map((table) => table.split('\n'))) {
      for (const line of lines) assert.equal(cells(line), cells(lines[0]!), line);
    }
  });

  it('says which base URL belongs to which protocol, of those that are served', () => {
    assert.ok(text.includes('| Messages | `<root>` | `POST /v1/messages` |'));
    assert.ok(!text.includes('| chat completions |'));
    const match = { methods: ['POST'], paths: ['/v1/chat/completions'], protocol: 'chat' } as const;
    const both = protocolText({ config, version: '9.8.7', pipelines: [...pipelines, { summary: 'Chat.', match }] });
    assert.ok(both.includes('| chat completions | `<root>/v1` | `POST /v1/chat/completions` |'));
    assert.ok(!protocolText({ config, version: '9.8.7', pipelines: [] }).includes('## Model requests'));
  });

  it('says the limits in force', () => {
    assert.ok(text.includes('30 unfinished sign-ins and 10 wrong codes'));
    assert.ok(text.includes('60 minutes') && text.includes('30 days'));
    assert.ok(text.includes('1000000 bytes'));
  });

  it('says which telemetry of clients is passed on', () => {
    assert.match(text, /`POST \/v1\/traces`.*this gateway forwards: no signal\./s);
    const forward_to = [
      { metrics: true, logs: false, traces: false },
      { metrics: false, logs: true, traces: false },
    ];
    const passing = { ...config, telemetry: { forward_to } } as unknown as typeof config;
    assert.match(protocolText({ config: passing, version: '9.8.7', pipelines }), /forwards: metrics, logs\./);
  });

  it('names the parameters and fields as they are sent', () => {
    assert.ok(text.includes("The optional `surface` is the program's name"));
    assert.ok(text.includes('`used`, `reserved`, `in_flight`'));
  });

  it('gives the status that the operator chose for spending refused', () => {
    const chosen = { ...config, spend_limits: { status: 402 } } as unknown as typeof config;
    assert.match(text, /`spend_limit_exceeded` \| 429/);
    assert.match(protocolText({ config: chosen, version: '9.8.7', pipelines }), /`spend_limit_exceeded` \| 402/);
  });

  it('names the headers about limits as the profile does', () => {
    const server = { ...config.server, profile: { header_prefix: 'acme' } };
    assert.match(text, /`vendor-ratelimit-unified-status` \|/);
    const named = protocolText({ config: { ...config, server }, version: '9.8.7', pipelines });
    assert.match(named, /`acme-ratelimit-unified-overage-utilization` \|/);
    assert.ok(!named.includes('vendor-ratelimit'));
    assert.ok(!named.includes('has its sentence'));
    const telling = { ...server, profile: { header_prefix: 'acme', refusal_header: 'x-acme-words' } };
    const told = protocolText({ config: { ...config, server: telling }, version: '9.8.7', pipelines });
    assert.match(told, /header `x-acme-words` has its sentence/);
  });

  it('tells nothing that only operators are to know', () => {
    assert.ok(!text.includes('id.example.com'));
    assert.ok(!text.includes('SECRET'));
  });

  it('leaves sign-in out where there is none', () => {
    const bare = protocolText({ config: without_sign_in, version: '9.8.7', pipelines });
    assert.ok(!bare.includes('/oauth/') && !bare.includes('## Sign-in'));
    assert.ok(bare.includes('gw_'));
  });

  it('is served as Markdown, openly, to GET and HEAD', async () => {
    const served = await serve(protocolRoute({ config, version: '9.8.7', pipelines, clock, log: quietLog }));
    const ask = askAt(() => served.url);
    try {
      const answer = await ask('GET', '/protocol');
      assert.equal(answer.status, 200);
      assert.equal(answer.headers['content-type'], 'text/markdown; charset=utf-8');
      assert.equal(answer.text, text);
      assert.equal((await ask('HEAD', '/protocol')).status, 200);
      assert.equal((await ask('POST', '/protocol')).status, 405);
    } finally {
      await served.close();
    }
  });
});

describe('a gateway without an identity provider', () => {
  it('says so at every path of sign-in', async () => {
    const served = await serve(signInOff({ clock, log: quietLog }));
    const ask = askAt(() => served.url);
    try {
      const program = [
        ['GET', '/.well-known/oauth-authorization-server'],
        ['POST', '/oauth/device_authorization'],
        ['POST', '/oauth/token'],
        ['GET', '/oauth/token'],
        ['POST', '/oauth/revoke'],
      ] as const;
      for (const [method, path] of program) {
        const answer = await ask(method, path);
        assert.equal(answer.status, 404, path);
        assert.equal(answer.json().error, 'not_supported');
        assert.match(answer.json().error_description, /auth\.oidc.*gw_/);
      }
      for (const path of ['/device', '/device/', '/oauth/callback?state=x']) {
        const answer = await ask('GET', path);
        assert.equal(answer.status, 404, path);
        assert.match(answer.text, /Sign-in is not set up/);
        assert.match(String(answer.headers['content-security-policy']), /default-src 'none'/);
      }
    } finally {
      await served.close();
    }
  });
});
