import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RoutingRuleConfig } from '../../engine/contract/config.ts';
import { routingRules } from '../../engine/rules/config-rules.ts';
import { stageConfig } from '../../engine/simulate/stage-harness.ts';
import { inOrder, routingSection } from '../support/routing.ts';

const SPARE = inOrder('spare');

function logicOf(rule: Partial<RoutingRuleConfig>): unknown {
  const whole: RoutingRuleConfig = { name: 'rule', mode: 'enforce', upstreams: SPARE, ...rule };
  return routingRules(stageConfig({ routing: routingSection([whole]) }))[0]!.logic;
}

const WHEN = { var: 'request.stream' };

describe('a routing rule as one condition', () => {
  it('always holds when it asks for nothing', () => {
    assert.equal(logicOf({}), true);
  });

  it('is the condition itself where there is one thing to ask', () => {
    assert.deepEqual(logicOf({ when: WHEN }), WHEN);
    assert.deepEqual(logicOf({ team: 'search' }), { '===': [{ var: 'principal.team' }, 'search'] });
    assert.deepEqual(logicOf({ models: ['coder-1'] }), { '===': [{ var: 'request.model' }, 'coder-1'] });
    assert.deepEqual(logicOf({ region: 'EU' }), { '===': [{ var: 'request.region' }, 'eu'] });
  });

  it('joins everything it asks for, in the order of the reference', () => {
    const rule = {
      models: ['coder-1', 'writer-*'],
      user: 'u',
      team: 't',
      group: 'g',
      project: 'p',
      region: 'r',
      when: WHEN,
    };
    assert.deepEqual(logicOf(rule), {
      and: [
        {
          or: [{ '===': [{ var: 'request.model' }, 'coder-1'] }, { glob: [{ var: 'request.model' }, 'writer-*'] }],
        },
        { '===': [{ var: 'principal.email' }, 'u'] },
        { '===': [{ var: 'principal.team' }, 't'] },
        { in: ['g', { var: 'principal.groups' }] },
        { '===': [{ var: 'principal.project' }, 'p'] },
        { '===': [{ var: 'request.region' }, 'r'] },
        WHEN,
      ],
    });
  });

  it('keeps its place, name, mode and upstreams', () => {
    const rules: RoutingRuleConfig[] = [
      { name: 'a', mode: 'shadow', upstreams: inOrder('main') },
      { name: 'b', mode: 'enforce', upstreams: SPARE, when: WHEN },
    ];
    assert.deepEqual(routingRules(stageConfig({ routing: routingSection(rules) })), [
      { index: 0, name: 'a', mode: 'shadow', logic: true, upstreams: inOrder('main') },
      { index: 1, name: 'b', mode: 'enforce', logic: WHEN, upstreams: SPARE },
    ]);
  });
});
