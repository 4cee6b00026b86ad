import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { protocolRoute, signInOff } from '../../../engine/edge/http/sign-in/index.ts';
import { protocolText } from '../../../engine/edge/http/sign-in/protocol.ts';
import { quietLog } from '../../support/store.ts';
import { ISSUER, signInConfig, whileServed } from './support.ts';

const clock = frozenClock('2026-11-21T12:00:00Z');
const pipelines = [
  {
    summary: 'Forwards Messages requests | charged.',
    match: { methods: ['POST'], paths: ['/v1/messages', '/other'], protocol: 'messages' },
  },
  { summary: 'Lists models.', match: { methods: ['GET', 'HEAD'], paths: ['/v1/models'], protocol: 'models' } },
] as const;
const config = signInConfig();
/** The text for a configuration with these sections, and these pipelines. */
const textWith = (sections: object, served: Parameters<typeof protocolText>[0]['pipelines'] = pipelines) =>
  protocolText({ config: { ...config, ...sections }, version: '9.8.7', pipelines: served });

describe('the protocol text', () => {
  const text = textWith({});

  it('names version, public URL, endpoints, limits, parameters and fields, and nothing only operators may know', () => {
    assert.ok(text.includes(`appscli 9.8.7 at ${ISSUER}`));
    const served = ['/v1/messages', '/other', '/v1/models', '/protocol', '/oauth/token', '/oauth/revoke', '/device'];
    for (const path of served) assert.ok(text.includes(`${path}\``), path);
    const limits = ['30 unfinished sign-ins and 10 wrong codes', '60 minutes', '30 days', '1000000 bytes'];
    const sent = ["The optional `surface` is the program's name", '`used`, `reserved`, `in_flight`'];
    for (const words of [...limits, ...sent]) assert.ok(text.includes(words), words);
    assert.doesNotMatch(text, /id\.example\.com|SECRET|\{\{|undefined/);
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

  it('lists the base URL of each served protocol', () => {
    assert.ok(text.includes('| Messages | `<root>` | `POST /v1/messages` |'));
    assert.ok(!text.includes('| chat completions |'));
    const match = { methods: ['POST'], paths: ['/v1/chat/completions'], protocol: 'chat' } as const;
    const both = textWith({}, [...pipelines, { summary: 'Chat.', match }]);
    assert.ok(both.includes('| chat completions | `<root>/v1` | `POST /v1/chat/completions` |'));
    assert.ok(!textWith({}, []).includes('## Model requests'));
  });

  it('lists the forwarded telemetry of clients', () => {
    assert.match(text, /`POST \/v1\/traces`.*this gateway forwards: no signal\./s);
    const forward_to = [
      { metrics: true, logs: false, traces: false },
      { metrics: false, logs: true, traces: false },
    ];
    assert.match(textWith({ telemetry: { forward_to } }), /forwards: metrics, logs\./);
  });

  it('has the configured status for rejections by a spend limit', () => {
    assert.match(text, /`spend_limit_exceeded` \| 429/);
    assert.match(textWith({ spend_limits: { status: 402 } }), /`spend_limit_exceeded` \| 402/);
  });

  it('names the headers about limits as the profile does', () => {
    const withProfile = (profile: object) => textWith({ server: { ...config.server, profile } });
    assert.match(text, /`vendor-ratelimit-unified-status` \|/);
    const named = withProfile({ header_prefix: 'acme' });
    assert.match(named, /`acme-ratelimit-unified-overage-utilization` \|/);
    assert.ok(!named.includes('vendor-ratelimit'));
    assert.ok(!named.includes('has its sentence'));
    const shown = withProfile({ header_prefix: 'acme', refusal_header: 'x-acme-words' });
    assert.match(shown, /header `x-acme-words` has its sentence/);
  });

  it('leaves sign-in out where there is none', () => {
    const bare = textWith({ auth: undefined });
    assert.ok(!bare.includes('/oauth/') && !bare.includes('## Sign-in'));
    assert.ok(bare.includes('gw_'));
  });

  it('is served as Markdown, openly, to GET and HEAD', async () => {
    await whileServed(protocolRoute({ config, version: '9.8.7', pipelines, clock, log: quietLog }), async (ask) => {
      const answer = await ask('GET', '/protocol');
      assert.equal(answer.status, 200);
      assert.equal(answer.headers['content-type'], 'text/markdown; charset=utf-8');
      assert.equal(answer.text, text);
      assert.equal((await ask('HEAD', '/protocol')).status, 200);
      assert.equal((await ask('POST', '/protocol')).status, 405);
    });
  });
});

describe('a gateway without an identity provider', () => {
  it('is reported at every path of sign-in', async () => {
    await whileServed(signInOff({ clock, log: quietLog }), async (ask) => {
      const program = [
        ['GET', '/.well-known/oauth-authorization-server'],
        ['POST', '/oauth/device_authorization'],
        ['POST', '/oauth/token'],
        ['GET', '/oauth/token'],
        ['POST', '/oauth/revoke'],
      ] as const;
      for (const [method, path] of program) {
        const response = await ask(method, path);
        assert.equal(response.status, 404, path);
        assert.equal(response.json().error, 'not_supported');
        assert.match(response.json().error_description, /auth\.oidc.*gw_/);
      }
      for (const path of ['/device', '/device/', '/oauth/callback?state=x']) {
        const response = await ask('GET', path);
        assert.equal(response.status, 404, path);
        assert.match(response.text, /Sign-in is not set up/);
        assert.match(String(response.headers['content-security-policy']), /default-src 'none'/);
      }
    });
  });
});
