/**
 * A gateway whose pages have something to show: people, requests, refusals, limits, tokens. Every name that a person or an
 * upstream can choose tries to become a script.
 * @module
 */
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { signInToConsole } from '../../support/console.ts';
import { mainUpstream, type TestGateway } from '../../support/gateway.ts';
import { PEOPLE, startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';

/** A name that runs a script wherever it is taken for markup; `window.taken` tells. */
export const HOSTILE = `"'><img src=x onerror="window.taken=1"><script>window.taken=1</script>{{7*7}}`;
/** A shorter one, for names that have few characters. */
export const HOSTILE_SHORT = `"><img src=x onerror=window.taken=1>`;

/** A gateway and what is around it. */
export interface ConsoleScene {
  readonly gateway: TestGateway;
  readonly provider: TestIdentityProvider;
  readonly upstream: ScriptedUpstream;
  close(): Promise<void>;
}

/** Opens the scene and lets people use it. */
export async function openConsoleScene(): Promise<ConsoleScene> {
  const provider = await startIdentityProvider({
    people: {
      ...PEOPLE,
      mallory: {
        email: 'mallory@example.com',
        email_verified: true,
        name: HOSTILE,
        groups: ['marketing', HOSTILE_SHORT],
      },
      eve: { email: 'eve@example.com', email_verified: false, name: HOSTILE, groups: [HOSTILE_SHORT] },
    },
  });
  const upstream = await startUpstream((exchange) => {
    const error = { type: 'error', error: { type: 'invalid_request_error', message: HOSTILE } };
    const fails = exchange.received.body.includes('please fail');
    const script = fails
      ? answerJson(error, 400, { 'request-id': HOSTILE_SHORT })
      : answerJson(message(), 200, { 'request-id': HOSTILE_SHORT });
    return script(exchange);
  });
  const gateway = await bootSignIn({
    provider,
    upstream_url: upstream.url,
    auth: { admin_groups: ['admins'], session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'all' } },
    config: {
      branding: { name: HOSTILE_SHORT },
      upstreams: [mainUpstream(upstream.url), { ...mainUpstream(upstream.url), name: 'second' }],
      spend_limits: {
        defaults: { user_daily_usd: 50, team_monthly_usd: 900 },
        rules: [
          {
            name: 'contractors-day',
            when: { '===': [{ var: 'principal.team' }, HOSTILE_SHORT] },
            scope: 'user',
            window: 'day',
            limit_usd: 0.000001,
          },
        ],
      },
    },
  });
  const close = async () => {
    await gateway.close();
    await upstream.close();
    await provider.close();
  };
  try {
    await usedByPeople(gateway);
  } catch (error) {
    await close();
    throw error;
  }
  return { gateway, provider, upstream, close };
}

/** What people do before somebody looks: it leaves a row on every page. */
async function usedByPeople(gateway: TestGateway): Promise<void> {
  const admin = await signInToConsole(gateway.url, 'anna');
  const change = async (method: string, path: string, body: object) => {
    const answer = await admin.call(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  for (const sub of ['ben', 'mallory']) await signInToConsole(gateway.url, sub);
  const own = { user: 'ben@example.com', group: 'all', expires_in_seconds: 86_400 };
  const { token } = await change('POST', '/admin/api/tokens', { ...own, name: 'laptop' });
  const hostile = { name: HOSTILE_SHORT, team: HOSTILE_SHORT, project: HOSTILE_SHORT };
  const { token: refused } = await change('POST', '/admin/api/tokens', {
    ...own,
    ...hostile,
    user: 'mallory@example.com',
  });
  const send = (as: string, model: string, text: string) =>
    fetch(`${gateway.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': as, 'content-type': 'application/json', 'user-agent': HOSTILE_SHORT },
      body: JSON.stringify({ model, max_tokens: 100, messages: [{ role: 'user', content: text }] }),
    }).then((answer) => answer.text());
  for (let i = 0; i < 12; i++) await send(token, i % 3 === 0 ? 'mapped-1' : 'coder-1', 'hello');
  await send(token, 'coder-1', 'please fail');
  await send(token, HOSTILE, 'no such model');
  await send(refused, 'coder-1', 'no room');
  const room = { user: 'ben@example.com', window: 'day', usd: 20, reason: HOSTILE, expires_in_seconds: 86_400 };
  await change('POST', '/admin/api/limits/grants', room);
  await change('PUT', '/admin/api/limits', { user: 'mallory@example.com', window: 'day', usd: 3, reason: HOSTILE });
  await change('POST', '/admin/api/upstreams/second/drain', { reason: HOSTILE });
  await change('POST', '/admin/api/service-tokens', {
    name: HOSTILE_SHORT,
    scopes: ['tokens:read'],
    expires_in_seconds: 86_400,
  });
  await signInToConsole(gateway.url, 'eve').catch(() => {});
  // A file whose name is hostile, and a reload that fails because of it.
  await writeFile(join(dirname(gateway.config_file), `${HOSTILE_SHORT.replaceAll('/', '')}.yaml`), '- nothing\n');
}
