import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ADMIN_OPERATIONS } from '../../engine/admin/description.ts';
import { shapeAnswer } from '../../engine/client/shape-answer.ts';
import { times } from '../support/times.ts';

const answerOf = (name: string) => ADMIN_OPERATIONS.get(name)!.answer;

test('an answer gets the form it is described with: what is missing is empty, what is unknown goes', () => {
  const shaped = shapeAnswer(answerOf('revokeToken'), {
    ...{ id: 'tok_1', user: 'a\u001b[2J', name: 7, state: 'later', team: 3, expires_at: null, more: 1 },
    also_revoked: ['tok_2', null],
  });
  assert.deepEqual(shaped, {
    ...{ id: 'tok_1', prefix: '', user: 'a\ufffd[2J', group: '', name: '', team: null, project: null },
    ...{ created_at: '', created_by: '', self_service: false, expires_at: null, last_used_at: null, revoked_at: null },
    ...{ replaced_by: null, state: 'later', suspends_at: null, also_revoked: ['tok_2', ''] },
  });
});

test('parts that need not be there stay away, and maps keep their keys', () => {
  assert.ok(!('replaces' in (shapeAnswer(answerOf('createToken'), {}) as object)));
  const limits = shapeAnswer(answerOf('listLimits'), {
    written: [{ by_group: { staff: 3 } }],
    limits: [{ of: { user: 'a' } }],
  });
  const { written, limits: now } = limits as { written: { by_group: object }[]; limits: { of: object; set: null }[] };
  assert.deepEqual([written[0]!.by_group, now[0]!.of, now[0]!.set], [{ staff: 3 }, { user: 'a' }, null]);
});

test('nothing that is sent breaks the form, or gets through with what a terminal acts upon', () => {
  const names = [...ADMIN_OPERATIONS.keys()];
  const key = fc.constantFrom('tokens', 'limits', 'written', 'of', 'id', 'next', 'before', '\u001b[2J');
  const sent = fc.dictionary(key, fc.jsonValue({ maxDepth: 4 }));
  fc.assert(
    fc.property(fc.constantFrom(...names), sent, (name, body) => {
      const shaped = shapeAnswer(answerOf(name), body);
      // Files that are downloaded are texts.
      assert.equal(typeof shaped, answerOf(name).type === 'string' ? 'string' : 'object');
      assert.ok(!JSON.stringify(shaped).includes('\\u001b'));
    }),
    { numRuns: times(100) },
  );
});
