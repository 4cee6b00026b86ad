import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Answer } from '../../engine/api.ts';
import { StageError } from '../../engine/contract/errors.ts';
import { createManagedPolicies } from '../../engine/identity/policies/managed-policies.ts';
import { openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import managedSettings from '../../stages/managed-settings.ts';
import { policy } from '../identity/policies/support/policies.ts';

const config = stageConfig({ policies: { managed: { enabled: true, directory: '/policies' } } });
const policies = createManagedPolicies(config, [policy('staff', { b: 1, a: 2 }, { groups: ['staff'] })]);

function ask(headers: Record<string, string | string[]> = {}, groups = ['staff']): Answer {
  const stage = openStage(managedSettings, { config, policies });
  const facts = { 'principal.email': 'dev@example.com', 'principal.groups': groups };
  return stage.hooks.request!(stage.request({ headers, facts })) as Answer;
}

const { etag } = policies.of({ groups: ['staff'], email: '' })!;

describe('managed-settings', () => {
  it('answers with uuid, checksum and settings, and with the checksum as the entity tag', () => {
    const answer = ask();
    const { uuid, checksum, settings } = JSON.parse(answer.body);
    assert.equal(answer.status, 200);
    assert.match(uuid, /^[0-9a-f-]{36}$/);
    assert.match(checksum, /^sha256:[0-9a-f]{64}$/);
    assert.deepEqual(settings, { a: 2, b: 1 });
    assert.deepEqual(answer.headers, {
      etag: `"${checksum}"`,
      'cache-control': 'private, no-cache',
      'content-type': 'application/json',
    });
  });

  it('answers 304 without a body when the client names what it would get', () => {
    for (const value of [etag, `W/${etag}`, `"x", ${etag}`, ` ${etag} ,"y"`, '*', `"x",W/${etag}`]) {
      const answer = ask({ 'if-none-match': value });
      assert.deepEqual([answer.status, answer.body, answer.headers.etag], [304, '', etag], value);
    }
  });

  it('answers in full to everything else', () => {
    for (const value of ['', '"x"', etag.slice(1, -1), `"${etag}"`, `w/${etag}`, `x${etag}`, '**', `"*"`, ',,,']) {
      assert.equal(ask({ 'if-none-match': value }).status, 200, value);
    }
  });

  it('says that there is none for people whom no policy is meant for', () => {
    const isNone = (error: unknown) => error instanceof StageError && error.code === 'policy_not_found';
    assert.throws(() => ask({}, ['guests']), isNone);
    assert.throws(() => ask({ 'if-none-match': '*' }, []), isNone);
  });
});
