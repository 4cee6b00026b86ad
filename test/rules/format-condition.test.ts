import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { formatCondition } from '../../engine/base/rules/format-condition.ts';
import { conditions } from './support/conditions.ts';

const stream = { var: 'request.stream' };
const coder = { glob: [{ var: 'request.model' }, 'coder-*'] };

describe('a description of a condition', () => {
  const cases: readonly [logic: unknown, words: string][] = [
    [
      { and: [coder, { in: ['interns', { var: 'principal.groups' }] }] },
      'request.model matches "coder-*" and principal.groups has "interns"',
    ],
    [
      { or: [stream, { and: [coder, stream] }] },
      'request.stream or (request.model matches "coder-*" and request.stream)',
    ],
    [{ '===': [{ var: 'request.model' }, 'a'] }, 'request.model is "a"'],
    [{ '===': ['a', { var: 'request.model' }] }, 'request.model is "a"'],
    [{ '!==': [{ var: 'principal.team' }, 'search'] }, 'principal.team is not "search"'],
    [{ '===': [{ var: 'principal.team' }, null] }, 'principal.team is not set'],
    [{ '!': stream }, 'not request.stream'],
    [{ '!': [coder] }, 'not (request.model matches "coder-*")'],
    [{ '!': { var: 'principal.project' } }, 'principal.project is not set'],
    [{ '!!': { var: 'principal.groups' } }, 'principal.groups is not empty'],
    [{ '!': { var: 'request.tool_count' } }, 'request.tool_count is 0 or not set'],
    [{ in: [{ var: 'request.model' }, ['a', 'b', 'c']] }, 'request.model is one of "a", "b", "c"'],
    [{ glob: [{ var: 'request.model' }, 'a*', 'b*'] }, 'request.model matches "a*" or "b*"'],
    [
      { cidr: [{ var: 'request.client.address' }, '10.0.0.0/8', 'fd00::/8'] },
      'request.client.address is in 10.0.0.0/8 or fd00::/8',
    ],
    [{ time_window: [{ var: 'request.received_at' }, 'mon-fri 09:00-17:00'] }, 'the time is in mon-fri 09:00-17:00'],
    [{ '>': [{ var: 'route.estimate_nano_usd' }, { usd: 0.5 }] }, 'route.estimate_nano_usd > 0.5 USD'],
    [{ '<=': [1, { var: 'request.tool_count' }, 9] }, '1 <= request.tool_count <= 9'],
    [{ '>': [{ '+': [{ var: 'request.max_tokens' }, 5] }, 9] }, '(request.max_tokens + 5) > 9'],
    [
      { some: [{ var: 'principal.groups' }, { glob: [{ var: '' }, 'eng-*'] }] },
      'some item of principal.groups matches "eng-*"',
    ],
    [
      { none: [{ var: 'principal.groups' }, { or: [{ '===': [{ var: '' }, 'a'] }, { glob: [{ var: '' }, 'b*'] }] }] },
      'for no item of principal.groups: it is "a" or it matches "b*"',
    ],
    [{ if: [stream, coder, false] }, 'request.model matches "coder-*" if request.stream, otherwise false'],
    [true, 'always'],
    [false, 'never'],
  ];
  for (const [logic, words] of cases) test(words, () => assert.equal(formatCondition(logic), words));

  test('never shows JSON-Logic', () => {
    fc.assert(
      fc.property(conditions, (condition) => {
        assert.doesNotMatch(formatCondition(condition), /[{}]|undefined|===|"var"/);
      }),
    );
  });
});
