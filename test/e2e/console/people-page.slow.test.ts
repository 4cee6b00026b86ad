/** The pages of users and of one's own sessions in a real browser. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { signIn } from '../../support/identity/sign-in.ts';
import { until } from '../../support/until.ts';
import { useConsole } from './scene.ts';

const site = useConsole();

it('an administrator finds a user, sees their sessions, and ends them', async () => {
  const { sub, email } = site.newPerson();
  await signIn(site.gateway.url, sub);
  const user = await site.signIn(sub);
  const { page, complaints } = await site.open('anna', '/console/people');
  await page.getByLabel('Search').fill(sub.toUpperCase());
  await page.getByLabel('Search').press('Enter');
  await until('no other user is listed', async () => (await page.getByText('anna@example.com').count()) === 1);
  await page.locator('.frame-side').getByRole('link', { name: 'People' }).click();
  await until('all users are listed again', async () => (await page.getByText('anna@example.com').count()) > 1);
  assert.equal(await page.getByLabel('Search').inputValue(), '');
  await page.goBack();
  await until('no other user is listed', async () => (await page.getByText('anna@example.com').count()) === 1);
  assert.equal(await page.getByLabel('Search').inputValue(), sub.toUpperCase());
  await page.getByRole('button', { name: email }).click();
  const drawer = page.getByRole('dialog');
  assert.equal(new URL(page.url()).search, `?search=${sub.toUpperCase()}&user=${encodeURIComponent(email)}`);
  await drawer.getByRole('button', { name: 'End the session of a browser' }).click();
  await page.getByRole('button', { name: 'End session' }).click();
  await page.getByText('The session has ended.').waitFor();
  assert.equal((await user.call('GET', '/admin/api/me')).status, 401);
  await drawer.getByRole('button', { name: 'End all sessions' }).click();
  await page.getByText('Signs out within a second: 1 client.').waitFor();
  await page.getByRole('button', { name: 'End all sessions' }).last().click();
  await page.getByText(`Ended 1 session of ${email}.`).waitFor();
  assert.deepEqual(complaints, []);
});

it('an administrator deprovisions a user by keyboard alone', async () => {
  const { sub, email } = site.newPerson();
  await signIn(site.gateway.url, sub);
  const { page } = await site.open('anna', `/console/people?after=a@example.com&user=${email}`);
  await page.getByRole('dialog').getByLabel('State').selectOption('all');
  await until('the sessions of the drawer are filtered', async () => page.url().includes('ended=true'));
  assert.ok(page.url().includes('after='), 'the list behind the drawer stays at its page');
  await page.getByRole('button', { name: 'Deprovision' }).focus();
  await page.keyboard.press('Enter');
  await page.getByLabel('Reason').focus();
  await page.keyboard.type('left the company');
  await page.keyboard.press('Enter');
  await page.getByText(`Deprovisioned ${email}: `).waitFor();
  await page.keyboard.press('Escape');
  await until('the drawer is closed, with its filter', () => !/user=|ended=/.test(page.url()));
  const anna = await site.signIn('anna');
  const { changes } = (await anna.call('GET', `/admin/api/changes?subject=${encodeURIComponent(email)}`)).body;
  assert.ok(changes.some(({ after }: { after: { because?: string } | null }) => after?.because === 'left the company'));
});

it('a developer sees their own sessions, ends the others, and is shown nothing of other users', async () => {
  const { sub } = site.newPerson();
  await signIn(site.gateway.url, sub);
  const { page } = await site.open(sub, '/console/sessions');
  await page.getByText('This browser').waitFor();
  await page.getByRole('button', { name: 'Sign out everywhere else' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Sign out everywhere else' }).click();
  await page.getByText(/^Ended \d+ sessions?\.$/).waitFor();
  await until('one is left', async () => (await page.getByRole('button', { name: /^End the session/ }).count()) === 1);
  for (const path of ['people', 'audit']) {
    await page.goto(`${site.gateway.url}/console/${path}`);
    const refusal = page.getByText(/admin role required/i);
    await refusal.first().waitFor();
    assert.equal(await page.getByText('anna@example.com').count(), 0);
    assert.equal(await page.getByRole('row').count(), 0);
  }
});
