/**
 * The console of a gateway with data on every page: users, requests, rejections, limits, tokens, an open breaker, a
 * reload that failed. Every name that a user or an upstream can choose tries to become a script.
 *
 * ```ts
 * const site = useConsole();                                        // the same gateway and browser for all files of a process
 * const { page, complaints } = await site.open('anna', '/console'); // signed in already; anna is an administrator
 * const carla = site.newPerson();                                   // a user that a test changes is its own
 * const request_id = await site.ask(carla.email);
 * ```
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { Changing } from '../../../engine/domain/audit/admin-changes.ts';
import { reportUsage } from '../../../engine/domain/budget/reports/usage.ts';
import { openAs, signInToConsole } from '../../support/console.ts';
import { atProcessEnd } from '../../support/file-end.ts';
import { mainUpstream, type TestGateway } from '../../support/gateway.ts';
import { useBrowser, type Watched } from '../../support/identity/browser.ts';
import { PEOPLE, startIdentityProvider, type TestPerson } from '../../support/identity/identity-provider.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import { answerJson, message, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { auditRecord } from '../support/state.ts';

/** A name that runs a script wherever it is taken for markup; `window.taken` shows it. */
export const HOSTILE = `"'><img src=x onerror="window.taken=1"><script>window.taken=1</script>{{7*7}}`;
/** A shorter one, for names that have few characters. */
export const HOSTILE_SHORT = `"><img src=x onerror=window.taken=1>`;

/** How many requests of one model made the breaker of `failing` open, and were served by `spare`. */
const SERVED_BY_SPARE = 6;
/** Requests of ben that were served. */
const OF_BEN = 12;

type Scene = Awaited<ReturnType<typeof openScene>>;

let shared: Promise<Scene> | undefined;
let people = 0;

/** Closes the scene where it is of no more use; otherwise it ends with the last test file. */
export async function closeScene(): Promise<void> {
  const scene = await shared?.catch(() => undefined);
  shared = undefined;
  await scene?.close();
}
atProcessEnd(closeScene);

/** The scene for the tests of a file; the first file that runs makes it. */
export function useConsole() {
  const browser = useBrowser();
  let scene: Scene;
  before(async () => {
    shared ??= openScene();
    scene = await shared;
  });
  return {
    get gateway() {
      return scene.gateway;
    },
    /** The recorded origin of what a test does without a browser. */
    get by(): Changing {
      const { database } = scene.gateway;
      return { database, clock: systemClock, actor: { kind: 'command', name: 'root@host' } };
    },
    /** Creates a user unknown to other tests: a developer, where no groups are named. */
    newPerson(more: TestPerson = {}) {
      const sub = `person-${String(++people).padStart(3, '0')}`;
      const email = `${sub}@example.com`;
      scene.provider.people.set(sub, { email, email_verified: true, name: sub, groups: ['marketing'], ...more });
      return { sub, email };
    },
    /** Opens a private window with a page, for a signed-in user. */
    async open(sub: string, path = '/console', options: BrowserContextOptions = {}): Promise<Watched> {
      const watched = await browser.open({
        viewport: { width: 1440, height: 900 },
        reducedMotion: 'reduce',
        ...options,
      });
      await openAs(watched.page, scene.gateway.url, sub, path);
      return watched;
    },
    /** Signs a user in without a browser. */
    signIn: (sub: string) => signInToConsole(scene.gateway.url, sub),
    /** Sends a request with a new access token of a user. @returns its id, once its audit record is written. */
    async ask(email: string, model = 'coder-1') {
      const { id } = await send(scene.gateway, await scene.gateway.newToken({ user: email }), model);
      await auditRecord(scene.gateway.database, id);
      return id;
    },
  };
}

/** Waits until a page is there and nothing of it loads any more. */
export async function loaded(page: Page, title: string): Promise<void> {
  await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
  await until(`${title} has loaded`, async () => (await page.locator('.skeleton, .stale').count()) === 0);
}

/** Opens the scene and simulates its users. */
async function openScene() {
  const hostile = { name: HOSTILE, groups: ['marketing', HOSTILE_SHORT, 'b'.repeat(200)] };
  const provider = await startIdentityProvider({
    people: {
      ...PEOPLE,
      mallory: { email: 'mallory@example.com', email_verified: true, ...hostile },
      eve: { email: 'eve@example.com', email_verified: false, ...hostile },
    },
  });
  const upstream = await startUpstream((exchange) => {
    const error = { type: 'error', error: { type: 'invalid_request_error', message: HOSTILE } };
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
    const { url, body } = exchange.received;
    const script = url.startsWith('/failing')
      ? answerJson(overloaded, 529)
      : body.includes('please fail')
        ? answerJson(error, 400, { 'request-id': HOSTILE_SHORT })
        : answerJson(message(), 200, { 'request-id': HOSTILE_SHORT });
    return script(exchange);
  });
  const main = mainUpstream(upstream.url);
  const breaker = { open_seconds: 600, open_seconds_max: 600 };
  const gateway = await bootSignIn({
    provider,
    upstream_url: upstream.url,
    auth: { admin_groups: ['admins'], session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'mapped-only' } },
    config: {
      branding: { name: HOSTILE_SHORT },
      upstreams: [
        main,
        { ...main, name: 'second' },
        { ...mainUpstream(`${upstream.url}/failing`), name: 'failing', breaker },
        { ...main, name: 'spare', breaker },
      ],
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
          { name: HOSTILE, scope: 'team', window: 'month', limit_usd: 100 },
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
    await reloadThrice(gateway);
    await usedByPeople(gateway);
  } catch (error) {
    await close();
    throw error;
  }
  return { gateway, provider, close };
}

const routing = (messages: number) => `
# ${HOSTILE_SHORT}
routing:
  default_upstream: main
  rules:
    - name: large-context
      when: { '===': [{ var: request.model }, large-1] }
      upstreams: [failing, spare]
    - name: long-conversations
      when: { '>': [{ var: request.message_count }, ${messages}] }
      mode: shadow
      upstream: main
`;

/** Loads other rules twice, and then invalid files: for their rules, and for a hostile file name. */
async function reloadThrice(gateway: TestGateway): Promise<void> {
  const { routing: _, ...sections } = JSON.parse(await readFile(gateway.config_file, 'utf8'));
  sections.models.push({ ...sections.models[0], id: 'large-1' });
  const yaml = Object.entries(sections).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`);
  const directory = dirname(gateway.config_file);
  for (const [file, content] of Object.entries({
    'policies/standard.yaml': `policy: standard\nversion: 1\nsummary: ${JSON.stringify(HOSTILE)}\nsettings: { model: coder-1 }\n`,
    'policies/marketing.yaml':
      'policy: marketing\nversion: 1\nsummary: For marketing.\nmatch: { groups: [marketing] }\nsettings: { model: mapped-1 }\n',
    [`own/${HOSTILE_SHORT.replaceAll('/', '')}.yaml`]: '- nothing\n',
  })) {
    await mkdir(dirname(join(directory, file)), { recursive: true });
    await writeFile(join(directory, file), content);
  }
  yaml.push('policies: { managed: { default_policy: standard, directory: policies } }\n');
  const broken = `${routing(50)}    - name: other\n      upstream: '${HOSTILE_SHORT}'\npipelines: own\n`;
  for (const text of [routing(20), routing(50), broken]) {
    await writeFile(gateway.config_file, yaml.join('') + text);
    await gateway.reload();
  }
}

/** Sends a request as clients do. */
async function send(
  { url }: TestGateway,
  token: string,
  model: string,
  { text = 'hello', session = '' } = {},
): Promise<{ readonly id: string; readonly status: number }> {
  const response = await fetch(`${url}/v1/messages`, {
    method: 'POST',
    headers: {
      'x-api-key': token,
      'content-type': 'application/json',
      'user-agent': HOSTILE_SHORT,
      ...(session !== '' && { 'x-claude-code-session-id': session }),
    },
    body: JSON.stringify({ model, max_tokens: 100, messages: [{ role: 'user', content: text }] }),
  });
  await response.text();
  return { id: response.headers.get('x-gateway-request-id')!, status: response.status };
}

/** What users do before a page is opened: it leaves a row on every page. */
async function usedByPeople(gateway: TestGateway): Promise<void> {
  const admin = await signInToConsole(gateway.url, 'anna');
  const change = async (method: string, path: string, body: object) => {
    const response = await admin.call(method, path, body);
    if (response.status >= 300)
      throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(response.body)}`);
    return response.body;
  };
  for (const sub of ['ben', 'mallory']) await signInToConsole(gateway.url, sub);
  await signInToConsole(gateway.url, 'eve').catch(() => {});
  const own = { user: 'ben@example.com', group: 'all', expires_in_seconds: 86_400 };
  const { token } = await change('POST', '/admin/api/tokens', { ...own, name: 'laptop' });
  const hostile = { name: HOSTILE_SHORT, team: HOSTILE_SHORT, project: HOSTILE_SHORT };
  const of_mallory = { ...own, ...hostile, user: 'mallory@example.com' };
  const { token: refused } = await change('POST', '/admin/api/tokens', of_mallory);
  for (let i = 0; i < OF_BEN; i++) await send(gateway, token, i % 3 === 0 ? 'mapped-1' : 'coder-1');
  await send(gateway, token, 'coder-1', { text: 'please fail' });
  await send(gateway, token, HOSTILE);
  await send(gateway, refused, 'coder-1');
  // Each of a session of its own: none has a home at the other upstream.
  // A failure of one caller alone opens no breaker for others.
  const callers = [gateway.token, await gateway.newToken({ user: 'zoe@example.com' })];
  for (let n = 0; n < SERVED_BY_SPARE; n++)
    await send(gateway, callers[n % 2]!, 'large-1', { session: `session-${n}` });
  const room = { user: 'ben@example.com', window: 'day', usd: 20, reason: HOSTILE, expires_in_seconds: 86_400 };
  await change('POST', '/admin/api/limits/grants', room);
  await change('PUT', '/admin/api/limits', { user: 'mallory@example.com', window: 'day', usd: 3, reason: HOSTILE });
  await change('POST', '/admin/api/upstreams/second/drain', { reason: HOSTILE });
  await change('POST', '/admin/api/service-tokens', {
    name: HOSTILE_SHORT,
    scopes: ['tokens:read'],
    expires_in_seconds: 86_400,
  });
  await until('all is settled', async () => {
    const rows = await reportUsage(gateway.database, {}, { by: ['user'] });
    return rows.reduce((sum, { requests }) => sum + Number(requests), 0) >= OF_BEN + SERVED_BY_SPARE;
  });
}
