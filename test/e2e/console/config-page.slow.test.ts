/** The page of the configuration in a real browser. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { openConsole, signInToConsole } from '../../support/console.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { overflow } from '../../support/identity/page-checks.ts';
import { bootSignIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { seriousFaults } from './axe.ts';
import { HOSTILE_SHORT } from './scene.ts';

const PHONE = { width: 390, height: 844 };

const routing = (messages: number) => `
# ${HOSTILE_SHORT}
routing:
  default_upstream: main
  rules:
    - name: long-conversations
      when: { '>': [{ var: request.message_count }, ${messages}] }
      mode: shadow
      upstream: main
`;

const browser = useBrowser();
let provider: TestIdentityProvider;
let gateway: TestGateway;
/** Versions that were in force, the older one first. */
let versions: readonly string[];

before(async () => {
  provider = await startIdentityProvider();
  gateway = await bootSignIn({ provider, auth: { admin_groups: ['admins'] } });
  const { routing: _, ...sections } = JSON.parse(await readFile(gateway.config_file, 'utf8'));
  const yaml = Object.entries(sections).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`);
  for (const text of [
    routing(20),
    routing(50),
    `${routing(50)}    - name: other\n      upstream: '${HOSTILE_SHORT}'\n`,
  ]) {
    await writeFile(gateway.config_file, yaml.join('') + text);
    await gateway.reload();
  }
  const anna = await signInToConsole(gateway.url, 'anna');
  const loads = await until('all loads are written down', async () => {
    const { body } = await anna.call('GET', '/admin/api/config/loads');
    return body.loads.length === 4 && body.loads;
  });
  versions = loads.flatMap(({ failed, version }: { failed: boolean; version: string }) => (failed ? [] : [version]));
  versions = [versions[1]!, versions[0]!];
});
after(async () => {
  await gateway?.close();
  await provider?.close();
});

async function show(page: Page, query: string): Promise<void> {
  await page.goto(`${gateway.url}/console/config${query}`);
  await page.getByRole('navigation', { name: 'Views of the configuration' }).waitFor();
  await until('all has loaded', async () => (await page.locator('.skeleton, .stale').count()) === 0);
}

async function textOf(element: Locator): Promise<string> {
  return (await element.textContent()) ?? '';
}

describe('the page of the configuration', () => {
  test('leads by a link to a rule in words, beside what is written for it', async () => {
    const { page, complaints } = await browser.open();
    await openConsole(page, gateway.url, 'anna', '/console/config');
    await show(page, '?rule=routing:long-conversations');
    const rule = page.locator('.config-rule[aria-current]');
    assert.match(await textOf(rule), /goes to main when request\.message_count > 50/);
    assert.match(await textOf(rule.getByRole('region')), /mode: shadow/);
    await rule.getByRole('link', { name: /gateway\.yaml:/ }).click();
    const marked = page.locator('.config-line.marked');
    await marked.waitFor();
    assert.match(await textOf(marked), /- name: long-conversations/);
    assert.deepEqual(complaints, []);
  });

  test('tells what differs between two versions in words and in lines', async () => {
    const { page } = await browser.open();
    await openConsole(page, gateway.url, 'anna', '/console/config');
    await show(page, `?from=${versions[0]}&to=${versions[1]}`);
    await page.getByText('Was: goes to main, when request.message_count > 20').waitFor();
    assert.match(await textOf(page.locator('.config-line.removed')), /, 20\] \}/);
    assert.match(await textOf(page.locator('.config-line.added')), /, 50\] \}/);
  });

  test('says first that the last reload failed and what to do, and shows hostile texts as texts', async () => {
    const { page, complaints } = await browser.open();
    await openConsole(page, gateway.url, 'anna', '/console/config');
    await show(page, '');
    const failed = page.getByRole('region', { name: 'The last reload failed' });
    assert.match(await textOf(failed), /still is, so requests are served as\s+before/);
    await failed.getByRole('link', { name: /^gateway\.yaml:/ }).click();
    await until('the file is shown', async () => (await page.locator('.config-line.marked').count()) === 1);
    assert.ok((await textOf(page.locator('.config-yaml'))).includes(HOSTILE_SHORT));
    assert.equal(await page.evaluate('window.taken'), undefined);
    assert.deepEqual(complaints, []);
  });

  test('puts a rule in shadow mode in force by a change to copy', async () => {
    const { page } = await browser.open();
    await openConsole(page, gateway.url, 'anna', '/console/config');
    await show(page, '?view=shadow');
    await page.getByText('Put it in force').focus();
    await page.keyboard.press('Enter');
    const change = page.getByRole('region', { name: 'The change that puts long-conversations in force' });
    assert.match(await textOf(change), /^-\s+mode: shadow$/m);
  });

  test('has nothing serious for axe in any view, and fits a phone', async () => {
    const { page } = await browser.open({ reducedMotion: 'reduce' });
    await openConsole(page, gateway.url, 'anna', '/console/config');
    const views = ['?view=rules&shipped=yes', '?view=shadow', '?view=files', '?view=findings'];
    for (const [i, view] of [...views, `?from=${versions[0]}&to=${versions[1]}`].entries()) {
      await show(page, view);
      await page.setViewportSize(PHONE);
      await page.emulateMedia({ colorScheme: i % 2 === 0 ? 'dark' : 'light' });
      assert.equal(await overflow(page), 0, view);
      assert.deepEqual(await seriousFaults(page), [], view);
    }
  });

  test('is not listed for a developer, who is told why it shows nothing', async () => {
    const { page } = await browser.open();
    await openConsole(page, gateway.url, 'ben', '/console/config');
    await page.getByText(/this is for administrators/i).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Configuration' }).count(), 0);
  });
});
