import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig, SpendRuleConfig } from '../../../engine/api.ts';
import { compileCondition } from '../../../engine/base/rules/compile.ts';
import { compileLimits, type LimitChoice, type LimitKeys } from '../../../engine/domain/budget/limits/spend-limits.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';

type SpendLimits = NonNullable<GatewayConfig['spend_limits']>;

const EVERYTHING: LimitKeys = {
  user: 'ana@example.com',
  team: 'search',
  project: 'apollo',
  token: 'tok_1',
  model: 'coder-1',
  upstream: 'main',
};

const ALWAYS = ['user day ana@example.com: -', 'team month search: -'];

interface Asked extends LimitChoice {
  readonly limits?: Partial<SpendLimits>;
  readonly rules?: readonly Partial<SpendRuleConfig>[];
  readonly keys?: Partial<LimitKeys>;
  readonly groups?: readonly string[];
  readonly facts?: object;
}

function ask({ limits, rules = [], keys = {}, groups = [], facts = {}, ...choice }: Asked) {
  const spend_limits = {
    defaults: {},
    on_store_error: 'deny',
    ...limits,
    rules: rules.map((rule) => ({ name: 'rule', scope: 'user', mode: 'enforce', ...rule })),
  } as unknown as SpendLimits;
  const compiled = compileLimits(stageConfig({ spend_limits }), compileCondition, choice);
  return compiled.demandsOf({ ...EVERYTHING, ...keys }, groups, () => facts as Readonly<Record<string, unknown>>);
}

/** Demands as `scope window key: rule limit`, with a dash where nothing limits and a question mark for a shadow. */
function demandsOn(asked: Asked): string[] {
  return ask(asked).demands.map(({ scope, key, window, unit, limit, rule, shadow }) => {
    const amount = limit === null ? '-' : `${rule} ${unit === 'nano_usd' ? limit / 1e9 : `${limit} ${unit}`}`;
    return `${scope} ${window} ${key}: ${amount}${shadow ? ' ?' : ''}`;
  });
}

const CONTRACTORS = { in: ['contractors', { var: 'principal.groups' }] };
const asContractor = { principal: { groups: ['contractors'] } };

describe('the money of a request', () => {
  it("is counted on the user's day and the team's month, limited or not", () => {
    assert.deepEqual(demandsOn({}), ALWAYS);
    assert.deepEqual(demandsOn({ limits: { defaults: { user_daily_usd: 5, team_monthly_usd: 7 } } }), [
      'user day ana@example.com: defaults.user_daily_usd 5',
      'team month search: defaults.team_monthly_usd 7',
    ]);
  });

  it('is limited by a rule on any scope, and by a combination under a key of all its parts', () => {
    const scopes = ['project', 'token', 'model', 'upstream', ['model', 'user']] as const;
    const rules = scopes.map((scope) => ({ scope, window: 'week', limit_usd: 2 }) as const);
    assert.deepEqual(demandsOn({ rules }), [
      ...ALWAYS,
      'project week apollo: rule 2',
      'token week tok_1: rule 2',
      'model week coder-1: rule 2',
      'upstream week main: rule 2',
      'user+model week ["ana@example.com","coder-1"]: rule 2',
    ]);
  });

  it('counts under every counter of its rules, and is limited only where its condition holds', () => {
    const rules = [
      { name: 'first', scope: 'model', window: 'day', limit_usd: 20, when: CONTRACTORS },
      { name: 'second', scope: 'model', window: 'day', limit_usd: 5, when: CONTRACTORS },
    ] as const;
    assert.deepEqual(demandsOn({ rules }), [...ALWAYS, 'model day coder-1: -']);
    assert.deepEqual(demandsOn({ rules, facts: asContractor }), [
      ...ALWAYS,
      'model day coder-1: first 20',
      'model day coder-1: second 5',
    ]);
  });

  it('reads the facts only when a condition needs them', () => {
    const compiled = compileLimits(stageConfig(), compileCondition);
    compiled.demandsOf(EVERYTHING, [], () => assert.fail('no condition'));
  });
});

describe('a limit by group', () => {
  const by_group = { limit_usd_by_group: { staff: 50, contractors: 20 }, window: 'day' } as const;
  const limitFor = (rule: object, ...groups: string[]) => ask({ rules: [rule], groups }).demands[0]!.limit;

  it("is the largest of the caller's groups, in any order", () => {
    assert.equal(limitFor(by_group, 'contractors'), 20e9);
    assert.equal(limitFor(by_group, 'contractors', 'staff'), 50e9);
    assert.equal(limitFor(by_group, 'staff', 'contractors'), 50e9);
  });

  it('is the default amount for a caller in no group, and no limit without a default', () => {
    assert.equal(limitFor({ ...by_group, limit_usd: 3 }, 'interns'), 3e9);
    assert.equal(limitFor(by_group, 'interns'), null);
  });

  it('ignores a group named like a property of every object', () => {
    assert.equal(limitFor(by_group, 'constructor', '__proto__', 'toString'), null);
  });
});

describe('a free request', () => {
  it('falls under limits on requests, and under none on money or tokens, not even one set at run time', () => {
    const rules = [
      { window: 'day', limit_usd: 1, concurrency: 2, requests_per_minute: 3, tokens_per_minute: 4 },
    ] as const;
    const limits = { defaults: { user_daily_usd: 1 } };
    assert.deepEqual(demandsOn({ limits, rules, charge: 'nothing' }), [
      'user open ana@example.com: rule 2 requests',
      'user minute ana@example.com: rule 3 requests',
    ]);
  });
});

describe('while some facts are not known', () => {
  const knows = (fact: string) => fact.startsWith('principal.');

  it('limits whose conditions read them are left out, and others are not', () => {
    const rules = [
      { name: 'known', window: 'day', limit_usd: 1, when: CONTRACTORS },
      {
        name: 'unknown',
        window: 'day',
        limit_usd: 2,
        when: { and: [CONTRACTORS, { '===': [{ var: ['request.model'] }, 'x'] }] },
      },
      {
        name: 'some',
        window: 'day',
        limit_usd: 3,
        when: { some: [{ var: 'principal.groups' }, { '===': [{ var: '' }, 'contractors'] }] },
      },
    ] as const;
    const keys = { model: undefined, upstream: undefined };
    assert.deepEqual(demandsOn({ rules, knows, keys, facts: asContractor }).slice(0, 2), [
      'user day ana@example.com: known 1',
      'user day ana@example.com: some 3',
    ]);
  });
});

describe('a request while the store is away', () => {
  const DAY = { window: 'day', limit_usd: 1 } as const;
  const decision = (on_store_error: 'deny' | 'allow', rules: readonly Partial<SpendRuleConfig>[], facts = {}) =>
    ask({ limits: { on_store_error }, rules: rules.map((rule) => ({ ...DAY, ...rule })), facts }).on_store_error;

  it('follows the default where no limit applies', () => {
    assert.equal(decision('allow', []), 'allow');
    assert.equal(decision('deny', []), 'deny');
    assert.equal(decision('allow', [{ on_store_error: 'deny', when: CONTRACTORS }]), 'allow');
  });

  it('continues only if every applicable limit allows it', () => {
    assert.equal(decision('deny', [{ on_store_error: 'allow' }]), 'allow');
    assert.equal(decision('deny', [{ on_store_error: 'allow' }, {}]), 'deny');
    assert.equal(decision('allow', [{}, { on_store_error: 'deny' }, {}]), 'deny');
    assert.equal(decision('allow', [{ on_store_error: 'deny', when: CONTRACTORS }], asContractor), 'deny');
  });

  it('is not stopped by a limit in shadow mode', () => {
    assert.equal(decision('allow', [{ on_store_error: 'deny', mode: 'shadow' }]), 'allow');
  });
});

it('any request has on each counter of money exactly one demand without limit, or limits, and never both', () => {
  const scope = fc.subarray(['user', 'team', 'project', 'token', 'model', 'upstream'] as const, {
    minLength: 1,
    maxLength: 4,
  });
  const rule = fc.record({
    scope,
    window: fc.constantFrom('day' as const, 'week' as const, 'month' as const),
    limit_usd: fc.integer({ min: 0, max: 1000 }),
    mode: fc.constantFrom('enforce' as const, 'shadow' as const),
    concurrency: fc.constant(3),
  });
  const conditional = fc.tuple(rule, fc.boolean()).map(([each, on]) => (on ? { ...each, when: CONTRACTORS } : each));
  fc.assert(
    fc.property(fc.array(conditional, { maxLength: 8 }), fc.boolean(), fc.boolean(), (rules, contractor, team) => {
      const keys = team ? {} : { team: undefined };
      const { demands } = ask({ rules, keys, facts: contractor ? asContractor : {} });
      const enforced = demands.filter(({ shadow }) => !shadow);
      const counters = Map.groupBy(enforced, (demand) =>
        JSON.stringify([demand.scope, demand.key, demand.window, demand.unit]),
      );
      for (const on_counter of counters.values()) {
        const unlimited = on_counter.filter(({ limit }) => limit === null).length;
        assert.equal(unlimited, on_counter.length === 1 && on_counter[0]!.limit === null ? 1 : 0);
      }
      for (const { scope: of, window, unit } of demands.filter(({ shadow }) => shadow)) {
        if (unit !== 'nano_usd') continue;
        assert.ok(enforced.some((demand) => demand.scope === of && demand.window === window && demand.unit === unit));
      }
      if (!team) assert.ok(demands.every((demand) => !demand.scope.split('+').includes('team')));
    }),
  );
});
