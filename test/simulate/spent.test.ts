import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GATEWAY, holds, REQUEST, suiteOf, testProject, UPSTREAM } from './support.ts';

const RULES = `
    - { name: weekly, scope: [model, user], window: week, limit_usd: 2 }
    - { name: by-token, scope: token, window: month, limit_usd: 3 }
    - { name: at-once, scope: team, concurrency: 2 }
    - { name: rates, scope: project, requests_per_minute: 5, tokens_per_minute: 100 }
`;
const files = {
  'gateway.yaml': GATEWAY.replace(
    '  rules:\n    - name: contractors',
    `  rules:${RULES}    - name: contractors`,
  ).replace('spend_limits:\n', 'spend_limits:\n  reserve: worst_case\n'),
};

const refusedBy = (name: string, caller: string, spent: string, rule: string, error = 'rate_limit_exceeded') => `
  - name: ${name}
    caller: ${caller}
    spent: [${spent}]
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 429, error: ${error}, facts: { spend.rule: ${rule} }, never: [upstream_call, ledger_row] }
`;
const passes = (name: string, caller: string, spent: string) => `
  - name: ${name}
    caller: ${caller}
    spent: [${spent}]
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 200 }
`;

describe('spending before a case', () => {
  it('may be the budget of a combination, by week, whatever order its scopes have', async () => {
    const spent = (scope: string, key: string) => `{ scope: ${scope}, key: ${key}, window: week, usd: 1.9999999 }`;
    const mine = spent('[model, user]', '[coder-1, dev@example.com]');
    const also_mine = spent('[user, model]', '[dev@example.com, coder-1]');
    const others = spent('[user, model]', '[eve@example.com, coder-1]');
    const all = [
      refusedBy('one order', '{}', mine, 'weekly', 'spend_limit_exceeded'),
      refusedBy('the other', '{}', also_mine, 'weekly', 'spend_limit_exceeded'),
      passes('of somebody else', '{}', others),
    ];
    await holds(all.join(''), files);
  });

  it("may be that of the caller's own access token, which is the same in all its requests", async () => {
    const full = '{ scope: token, window: month, usd: 3 }';
    const case_ = `
  - name: two requests with one token
    spent: [{ scope: token, window: month, usd: 2.9997 }]
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 200 }
    then:
      - { caller: { group: contractors }, expect: { status: 200 } }
      - expect: { status: 429, facts: { spend.rule: by-token } }
`;
    const signed_in = '{ kind: session, group: all, user: eve@example.com }';
    const all = [
      refusedBy('a token that is used up', '{}', full, 'by-token', 'spend_limit_exceeded'),
      refusedBy('a session that is used up', signed_in, full, 'by-token', 'spend_limit_exceeded'),
      case_,
    ];
    await holds(all.join(''), files);
  });

  it('may be requests under way, requests of this minute, or tokens of this minute', async () => {
    const all = [
      passes('one under way', '{ team: search }', '{ scope: team, window: open, requests: 1 }'),
      refusedBy('two under way', '{ team: search }', '{ scope: team, window: open, requests: 2 }', 'at-once'),
      passes('four in a minute', '{ project: atlas }', '{ scope: project, window: minute, requests: 4 }'),
      refusedBy('five in a minute', '{ project: atlas }', '{ scope: project, window: minute, requests: 5 }', 'rates'),
      passes('few tokens in a minute', '{ project: atlas }', '{ scope: project, window: minute, tokens: 60 }'),
      refusedBy(
        'many tokens in a minute',
        '{ project: atlas }',
        '{ scope: project, window: minute, tokens: 95 }',
        'rates',
      ),
    ];
    await holds(all.join(''), files);
  });

  const mistakes: readonly (readonly [spent: string, message: RegExp])[] = [
    ['{ scope: user, window: day }', /^C3002 `usd` is missing$/],
    ['{ scope: user, window: minute }', /^C3002 `requests` or `tokens` is missing$/],
    ['{ scope: user, window: week, requests: 1 }', /^C4009 `requests` does not apply to the window "week"$/],
    ['{ scope: user, window: minute, usd: 1 }', /^C4009 `usd` does not apply to the window "minute"$/],
    ['{ scope: user, window: minute, requests: 1, tokens: 1 }', /^C4009 `tokens` and `requests` exclude each other$/],
    ['{ scope: team, window: day, usd: 1 }', /^C8004 the team is missing$/],
    ['{ scope: [user, model], window: day, usd: 1 }', /^C8004 the model is missing$/],
    ['{ scope: [user, model], key: coder-1, window: day, usd: 1 }', /^C8004 each scope needs a key$/],
    ['{ scope: usr, window: day, usd: 1 }', /^C3004 /],
    ['{ scope: [user, user], window: day, usd: 1 }', /^C3010 /],
    ['{ scope: user, window: minute, requests: 1.5 }', /^C3003 /],
  ];
  for (const [spent, message] of mistakes) {
    it(`is reported as wrong, once: ${spent}`, async () => {
      const suite = await suiteOf(testProject(passes('mistaken', '{}', spent)));
      const found = suite.diagnostics.map((one) => `${one.code} ${one.message}`);
      assert.equal(found.length, 1, found.join('\n'));
      assert.match(found[0]!, message);
    });
  }
});
