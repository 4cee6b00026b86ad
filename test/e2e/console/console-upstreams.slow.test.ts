import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createProject, type Project } from '../../load/support/project.ts';
import { openConsole, signInToConsole } from '../../support/console.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { overflow } from '../../support/identity/page-checks.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask } from '../support/client.ts';
import { seriousFaults } from './axe.ts';

const HOSTILE = `<img src=x onerror="document.title='taken'">`;
const OVERLOADED = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
const FAILURES = 6;

const browser = useBrowser();
let provider: TestIdentityProvider;
let gateway: TestGateway;
let project: Project;
const upstreams: ScriptedUpstream[] = [];

before(async () => {
  provider = await startIdentityProvider({ host: 'localhost' });
  upstreams.push(await startUpstream(answerJson(OVERLOADED, 529)), await startUpstream(answerJson(message())));
  const standard = `policy: standard\nversion: 1\nsummary: ${JSON.stringify(HOSTILE)}\nsettings: { model: coder-1 }\n`;
  const marketing =
    'policy: marketing\nversion: 1\nsummary: For marketing.\nmatch: { groups: [marketing] }\nsettings: { model: mapped-1 }\n';
  project = createProject({ 'policies/standard.yaml': standard, 'policies/marketing.yaml': marketing });
  const entry = (name: string, { url }: ScriptedUpstream) => {
    return {
      name,
      type: 'vendor',
      base_url: url,
      api_key_env: 'TEST_UPSTREAM_KEY',
      retry_budget: { percent: 0, least: 0 },
      breaker: { open_seconds: 600, open_seconds_max: 600 },
    };
  };
  gateway = await bootSignIn({
    provider,
    auth: { admin_groups: ['admins'], session: { signing_key_env: 'TEST_SIGNING_KEY', token_group: 'all' } },
    config: {
      policies: { managed: { default_policy: 'standard', directory: project.path('policies') } },
      upstreams: [entry('main', upstreams[0]!), entry('spare', upstreams[1]!)],
      routing: { default_upstreams: ['main', 'spare'], rules: [] },
    },
  });
  // Each of a session of its own: none has a home at the other upstream.
  for (let n = 0; n < FAILURES; n++) {
    const session = ['x-claude-code-session-id', `session-${n}`];
    assert.equal((await ask(gateway.url, gateway.token, {}, session)).status, 200);
  }
});
after(async () => {
  await gateway?.close();
  await provider?.close();
  await Promise.all(upstreams.map((each) => each.close()));
  project?.remove();
});

it('a breaker that opens, and what led to it, is there for administrators', async () => {
  const anna = await signInToConsole(gateway.url, 'anna');
  const get = async (path: string) => (await anna.call('GET', `/admin/api/upstreams${path}`)).body;
  const [main] = (await get('')).upstreams;
  assert.deepEqual(
    main.models.map(({ upstream_model, state }: Record<string, string>) => [upstream_model, state]),
    [['coder-1', 'open']],
  );
  const trouble = await until(
    'the trouble is written down',
    async () => (await get('/troubles?upstream=main')).troubles[0],
  );
  assert.deepEqual(
    [trouble.kind, trouble.upstream_model, trouble.last, trouble.ended_at],
    ['open', 'coder-1', 'status 529', null],
  );
  const traffic = await until('all is settled', async () => {
    const told = await get('/traffic');
    return told.attempts >= FAILURES + 5 && told;
  });
  const [spare, other] = traffic.upstreams;
  assert.deepEqual([spare.upstream, spare.served, spare.failed], ['spare', FAILURES, 0]);
  assert.ok(spare.p50_ms > 0 && spare.p95_ms >= spare.p50_ms);
  // Five open the breaker; the one after it goes to the other upstream at once.
  assert.deepEqual([other.upstream, other.served, other.failed, other.limited], ['main', 0, 5, 0]);
  assert.equal(other.outcomes[0].outcome, 'overloaded');
});

describe('in a browser', () => {
  it('an administrator drains an upstream by keyboard, is told what that leaves, and resumes it', async () => {
    const { page, complaints } = await browser.open();
    await openConsole(page, gateway.url, 'anna', '/console/upstreams');
    await page.getByText('Breaker open for one model').waitFor();
    await page.getByRole('button', { name: 'Drain spare' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Drain spare?' }).waitFor();
    await page.getByLabel('Reason').fill(HOSTILE);
    await page.keyboard.press('Enter');
    await page.getByText('Drained spare. Its routes go on with their other upstreams.').waitFor();
    await page.getByText(`: ${HOSTILE}`).waitFor();
    await page.getByText('no other left').waitFor();
    await page.getByRole('button', { name: 'Drain main' }).click();
    await page.getByText('No other upstream is left in the route').waitFor();
    assert.deepEqual(await seriousFaults(page), [], 'the dialog');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Resume spare' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume spare' }).click();
    await page.getByText('Resumed spare. It gets new requests again.').waitFor();
    await page.getByRole('button', { name: 'Drain spare' }).waitFor();
    await page.getByRole('button', { name: 'Show as table' }).first().click();
    await page
      .getByRole('region', { name: /^Attempts at/ })
      .getByRole('columnheader', { name: 'Failed' })
      .waitFor();
    assert.deepEqual(await seriousFaults(page), [], 'the page');
    await page.setViewportSize({ width: 360, height: 800 });
    assert.equal(await overflow(page), 0);
    assert.equal(await page.locator('img').count(), 0);
    assert.notEqual(await page.title(), 'taken');
    assert.deepEqual(complaints, []);
  });

  it('an administrator previews policies as somebody else, whose clients never asked', async () => {
    await signInToConsole(gateway.url, 'ben');
    const { page, complaints } = await browser.open();
    await openConsole(page, gateway.url, 'anna', '/console/policies');
    await page.getByLabel('E-mail address').fill('ben@example.com');
    await page.keyboard.press('Enter');
    await page.getByText('is meant for members of marketing').waitFor();
    assert.match(page.url(), /user=ben(@|%40)example\.com/);
    await page.getByText('that of standard').waitFor();
    await page.getByText('Never asked').first().waitFor();
    assert.ok((await page.getByText(HOSTILE).count()) > 0);
    await page.getByRole('link', { name: 'dev@example.com' }).click();
    await page
      .getByRole('group', { name: 'What somebody gets' })
      .getByText('dev@example.com', { exact: true })
      .waitFor();
    await page.locator('[aria-label="What somebody gets"]:focus').waitFor();
    assert.deepEqual(await seriousFaults(page), []);
    await page.setViewportSize({ width: 360, height: 800 });
    assert.equal(await overflow(page), 0);
    assert.equal(await page.locator('img').count(), 0);
    assert.deepEqual(complaints, []);
  });

  it('a developer sees their own policies, and nothing of upstreams', async () => {
    const { page } = await browser.open();
    await openConsole(page, gateway.url, 'ben', '/console/policies');
    await page.getByText('is meant for members of marketing').waitFor();
    assert.equal(await page.getByRole('link', { name: 'Upstreams' }).count(), 0);
    assert.equal(await page.getByLabel('E-mail address').count(), 0);
    await page.goto(`${gateway.url}/console/upstreams`);
    await page
      .getByText(/This is for administrators/)
      .first()
      .waitFor();
    assert.equal(await page.getByRole('button', { name: /Drain/ }).count(), 0);
  });
});
