/** Telemetry of sign-ins: each step with outcome and reason, never with a user. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { REQUEST_ID_HEADER } from '../../../engine/pipeline/run/headers.ts';
import { ANNA, fails, useSignIn } from './support.ts';

const { ask, backstage, begin, answer: response, away, comeBack, poll, token, renew, signIn } = useSignIn();

/** Operation, outcome and reason recorded since the last call. */
function recorded(): (readonly [string, unknown, string | undefined])[] {
  return backstage.operations
    .splice(0)
    .map(({ name, attributes, error_type }) => [name, attributes[`${name}.outcome`], error_type] as const);
}

describe('telemetry of sign-in', () => {
  it('reports a rejected user, with the reason, and a user who declines', async () => {
    backstage.admit = () => ({ refused: 'group', message: 'You are in no group.', detail: 'none came' });
    const mine = await away();
    await comeBack(mine);
    await poll(mine.device_code);
    await response((await begin()).user_code, 'deny');
    assert.deepEqual(recorded(), [
      ['gateway.sign_in', 'begun', undefined],
      ['gateway.sign_in', 'refused', 'group'],
      ['gateway.session', 'refused', 'access_denied'],
      ['gateway.sign_in', 'begun', undefined],
      ['gateway.sign_in', 'declined', undefined],
    ]);
  });

  const FAILURES = [
    ['unavailable', 'failed', 'provider_unavailable'],
    ['invalid', 'failed', 'provider_invalid'],
    ['refused', 'refused', 'provider_refused'],
  ] as const;
  for (const [problem, outcome, reason] of FAILURES) {
    it(`has a failure of the identity provider that is "${problem}"`, async () => {
      const mine = await away();
      recorded();
      backstage.provider.identify = fails(problem, 'it said: s3cret-of-the-provider');
      await comeBack(mine);
      const operations = JSON.stringify(backstage.operations);
      assert.deepEqual(recorded(), [['gateway.sign_in', outcome, reason]]);
      assert.doesNotMatch(operations, /s3cret/);
    });
  }

  it('reports a failed renewal, with the reason', async () => {
    const { refresh_token } = await signIn();
    recorded();
    backstage.provider.recheck = fails('unavailable');
    assert.equal((await renew(refresh_token)).status, 503);
    backstage.refresh_outcome = 'expired';
    assert.equal((await renew(refresh_token)).status, 401);
    assert.equal((await renew('gwr_nonsense')).status, 401);
    backstage.refresh_outcome = undefined;
    backstage.store_down = true;
    assert.equal((await renew(refresh_token)).status, 503);
    assert.deepEqual(recorded(), [
      ['gateway.session', 'failed', 'provider_unavailable'],
      ['gateway.session', 'refused', 'expired'],
      ['gateway.session', 'refused', 'unknown'],
      ['gateway.session', 'failed', 'store_unavailable'],
    ]);
  });

  it("reports the gateway's own changes when the provider rejects a renewal", async () => {
    const { refresh_token } = await signIn();
    recorded();
    backstage.provider.recheck = fails('refused');
    assert.equal((await renew(refresh_token)).status, 401);
    const [change] = backstage.operations;
    assert.deepEqual(change!.attributes, {
      'gateway.admin.action': 'person.suspend',
      'gateway.admin.actor_kind': 'gateway',
    });
    assert.deepEqual(recorded().slice(1), [['gateway.session', 'refused', 'provider_refused']]);
  });

  it('has forms that no client sends', async () => {
    await token({ grant_type: 'password' });
    await ask('GET', '/oauth/token');
    await ask('GET', '/oauth/callback?code=a&state=b');
    assert.deepEqual(recorded(), [
      ['gateway.session', 'refused', 'unsupported_grant_type'],
      ['gateway.session', 'refused', 'invalid_request'],
      ['gateway.sign_in', 'refused', 'unknown'],
    ]);
  });

  it("contains the request id of the log and the caller's trace, and no user name", async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const { headers } = await ask('POST', '/oauth/device_authorization', { form: {}, headers: { traceparent } });
    const [operation] = backstage.operations;
    assert.equal(operation!.attributes['gateway.request_id'], headers[REQUEST_ID_HEADER]);
    assert.deepEqual(
      [operation!.trace?.trace_id, operation!.trace?.parent_span_id],
      ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'],
    );
    await signIn();
    const lines = backstage.logs.filter((line) => /^a (sign-in was approved|session began)/.test(line));
    assert.equal(lines.length, 2);
    for (const line of lines) assert.match(line, /"request_id":"[0-9a-f-]{36}","trace_id":"[0-9a-f]{32}"/);
    const text = JSON.stringify(backstage.operations);
    for (const planted of [ANNA.email, ANNA.sub, ANNA.name, 'gwr_']) assert.ok(!text.includes(planted), planted);
  });
});
