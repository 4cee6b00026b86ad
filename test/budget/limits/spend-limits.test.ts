import assert from 'node:assert/strict';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import {
  type GatewayConfig,
  type ModelConfig,
  type PricingConfig,
  SPEND_SCOPES,
  type SpendLimitsConfig,
  type SpendRuleConfig,
  type UpstreamConfig,
} from '../../../engine/base/contract/config.ts';
import type { LimitStatus } from '../../../engine/base/contract/services.ts';
import { SPEND_WINDOWS } from '../../../engine/base/contract/windows.ts';
import { compileCondition } from '../../../engine/base/rules/compile.ts';
import { highestCost, mostTokensOf } from '../../../engine/domain/budget/ledger/expectations.ts';
import { nameCounted } from '../../../engine/domain/budget/limits/limit-names.ts';
import { forecastOf, type Past } from '../../../engine/domain/budget/limits/limit-statuses.ts';
import { overshootBound } from '../../../engine/domain/budget/limits/overshoot.ts';
import { limitHeaders, refuseForLimits } from '../../../engine/domain/budget/limits/refusals.ts';
import {
  compileLimits,
  describeAmount,
  describeLimit,
  type LimitChoice,
  type LimitKeys,
  spendLimits,
} from '../../../engine/domain/budget/limits/spend-limits.ts';
import { findPriceProblems, type UsedPrice } from '../../../engine/domain/budget/prices/used-prices.ts';
import { createModelCatalog } from '../../../engine/domain/upstreams/models.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { anyText } from '../../support/any-text.ts';
import { spendLimitsSection } from '../../support/spend-limits.ts';
import { times } from '../../support/times.ts';

function limitsOf(section: Partial<SpendLimitsConfig>) {
  return spendLimits(stageConfig({ spend_limits: spendLimitsSection(section) }));
}

const WHEN = { var: 'request.stream' };
const RULE: SpendRuleConfig = { name: 'rule', scope: 'user', mode: 'enforce' };

describe('the limits of a configuration', () => {
  it('are none without the section, and none without an amount', () => {
    assert.deepEqual(spendLimits(stageConfig()), []);
    assert.deepEqual(limitsOf({}), []);
  });

  it('lists general limits first, each with its place in the file', () => {
    const limits = limitsOf({
      defaults: { user_weekly_usd: 0.5, token_daily_usd: 0 },
      rules: [{ ...RULE, window: 'month', limit_usd: 7 }],
    });
    const shown = limits.map(({ pointer, name, scope, window, unit, limit }) =>
      [pointer, name, scope, window, unit, limit].join(' '),
    );
    assert.deepEqual(shown, [
      '/spend_limits/defaults/user_weekly_usd defaults.user_weekly_usd user week nano_usd 500000000',
      '/spend_limits/defaults/token_daily_usd defaults.token_daily_usd token day nano_usd 0',
      '/spend_limits/rules/0 rule user month nano_usd 7000000000',
    ]);
  });

  it('are one for each amount of a rule, in the unit of the amount', () => {
    const amounts = { limit_usd: 1, concurrency: 8, requests_per_minute: 60, tokens_per_minute: 1000 };
    const limits = limitsOf({ rules: [{ ...RULE, mode: 'shadow', when: WHEN, window: 'week', ...amounts }] });
    assert.deepEqual(
      limits.map(({ window, unit, limit }) => [window, unit, limit]),
      [
        ['week', 'nano_usd', 1_000_000_000],
        ['open', 'requests', 8],
        ['minute', 'requests', 60],
        ['minute', 'tokens', 1000],
      ],
    );
    for (const { logic, mode, pointer } of limits) {
      assert.deepEqual([logic, mode, pointer], [WHEN, 'shadow', '/spend_limits/rules/0']);
    }
  });

  it('name the scopes of a combination in one order, however the file does', () => {
    const scopes = (scope: SpendRuleConfig['scope']) => limitsOf({ rules: [{ ...RULE, scope, concurrency: 1 }] })[0];
    assert.equal(scopes(['upstream', 'user', 'model'])?.scope, 'user+model+upstream');
    assert.equal(scopes(['team'])?.scope, 'team');
    assert.deepEqual(scopes(['model', 'token'])?.scopes, ['token', 'model']);
  });
});

describe('the description of a limit', () => {
  it('lists amount, scope and window', () => {
    const of = (rule: Partial<SpendRuleConfig>) =>
      limitsOf({ rules: [{ ...RULE, ...rule }] }).map((limit) => describeLimit(limit));
    assert.deepEqual(of({ window: 'day', limit_usd: 20 }), ['20 USD per user and day']);
    assert.deepEqual(of({ scope: ['model', 'team'], concurrency: 1 }), ['1 request at once per team and model']);
    assert.deepEqual(of({ requests_per_minute: 2, tokens_per_minute: 1 }), [
      '2 requests per user and minute',
      '1 token per user and minute',
    ]);
    assert.deepEqual(of({ window: 'week', limit_usd: 2, limit_usd_by_group: { staff: 5.5 } }), [
      '5.5 USD for staff, 2 USD for others per user and week',
    ]);
  });

  it('names the zone in which days begin, where there are any', () => {
    const [day, minute] = limitsOf({ rules: [{ ...RULE, window: 'day', limit_usd: 20, requests_per_minute: 2 }] });
    assert.equal(describeLimit(day!, 'Europe/Berlin'), '20 USD per user and day (Europe/Berlin)');
    assert.equal(describeLimit(minute!, 'Europe/Berlin'), '2 requests per user and minute');
  });

  it('lists amounts in their unit and windows as adjectives', () => {
    assert.deepEqual(
      [describeAmount(1, 'nano_usd'), describeAmount(1, 'requests'), describeAmount(2, 'tokens')],
      ['0.000000001 USD', '1 request', '2 tokens'],
    );
  });
});

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
    const amounts = { limit_usd: 1, concurrency: 2, requests_per_minute: 3, tokens_per_minute: 4 };
    const rules = [{ window: 'day', ...amounts }] as const;
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
    const of_model = { '===': [{ var: ['request.model'] }, 'x'] };
    const is_contractor = { '===': [{ var: '' }, 'contractors'] };
    const rules = [
      { name: 'known', window: 'day', limit_usd: 1, when: CONTRACTORS },
      { name: 'unknown', window: 'day', limit_usd: 2, when: { and: [CONTRACTORS, of_model] } },
      { name: 'some', window: 'day', limit_usd: 3, when: { some: [{ var: 'principal.groups' }, is_contractor] } },
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

const FACTS = {
  protocol: 'request.protocol',
  upstream_protocol: 'route.protocol',
  window_asked: 'request.context_window',
  input_max: 'request.input_tokens_max',
  ...{ output_bounds: 'request.output_bounds', max_tokens: 'request.max_tokens' },
  ...{ choices: 'request.choices', iterations: 'request.iterations', compacts: 'request.compacts' },
} as const;
type AskedTokens = { readonly [Name in keyof typeof FACTS]?: unknown };
const ASKED: AskedTokens = {
  ...{ protocol: 'chat', upstream_protocol: 'chat', input_max: 1000 },
  ...{ output_bounds: { max_tokens: 500 }, max_tokens: 500 },
};

function most(asked: AskedTokens, at: Partial<UpstreamConfig> = {}, model: Partial<ModelConfig> = {}) {
  const { models, upstreams } = stageConfig();
  const all = Object.entries({ ...ASKED, ...asked }).map(
    ([name, value]) => [FACTS[name as keyof AskedTokens], value] as const,
  );
  const facts = new Map<string, unknown>(all);
  const ctx = { get: (path: string) => facts.get(path) as never };
  return mostTokensOf(ctx, { ...models[0]!, ...model }, { ...upstreams[0]!, ...at });
}

const LONGEST = 64_000;

const NEWER = { output_bounds: { max_completion_tokens: 7 }, max_tokens: 7 };
const BOTH = { output_bounds: { max_tokens: 900, max_completion_tokens: 5 }, max_tokens: 900 };
const MESSAGES = { protocol: 'messages', output_bounds: { max_tokens: 9 }, max_tokens: 9 };
const UNBOUNDED = { output_bounds: {}, max_tokens: undefined };
const TO_MESSAGES = { ...UNBOUNDED, upstream_protocol: 'messages' } as const;
const AT_OLDER = { max_tokens_field: 'max_tokens', enforces: ['max_tokens'] } as const;
const AT_NEWER = { max_tokens_field: 'max_completion_tokens', enforces: ['max_completion_tokens'] } as const;
const PLAIN = { supports: { ...stageConfig().models[0]!.supports, thinking: 'none' } } as const;
const UNTOLD = { max_output_tokens: 200_000, default_output_tokens: 8192 };

/** Output of one run by request, upstream and model. */
const OUTPUTS: readonly (readonly [what: string, output: number, ...Parameters<typeof most>])[] = [
  ['a bound that the upstream keeps to', 500, {}],
  ['the newer field, which no server is assumed to know by default', LONGEST, NEWER],
  ['the newer field where the upstream knows it', 7, NEWER, { enforces: ['max_tokens', 'max_completion_tokens'] }],
  ['an upstream that keeps to no bound', LONGEST, {}, { enforces: [] }],
  ['the larger of two, as it may know the other, too', 900, BOTH, { enforces: ['max_completion_tokens'] }],
  [
    'the larger of two, whichever it is',
    900,
    { ...BOTH, output_bounds: { max_tokens: 5, max_completion_tokens: 900 } },
  ],
  ['the larger of two that it knows', 900, BOTH, { enforces: ['max_completion_tokens', 'max_tokens'] }],
  ['0, which some servers take for no bound', LONGEST, { output_bounds: { max_tokens: 0 }, max_tokens: 0 }],
  ['a translated request to a model that thinks, bounded by max_completion_tokens', LONGEST, MESSAGES],
  ['a translated request to another model', 9, MESSAGES, {}, PLAIN],
  ['the least that the protocol takes', 16, { ...MESSAGES, upstream_protocol: 'responses' }],
  ['the older field that alone is taken, of the newer one', 7, NEWER, AT_OLDER],
  ['the newer field that alone is taken, of the older one', 500, {}, AT_NEWER],
  ['both, where the upstream gets both', 900, BOTH, AT_OLDER],
  ['the field that alone is taken, translated', 7, { ...NEWER, protocol: 'messages' }, AT_OLDER],
  ['no bound for the field that alone is taken', LONGEST, UNBOUNDED, AT_OLDER],
  ['the bound of ours, where a protocol has none without', 8192, TO_MESSAGES, {}, UNTOLD],
  ['the bound of ours, from Responses', 8192, { ...TO_MESSAGES, protocol: 'responses' }, {}, UNTOLD],
  ['no bound of ours at an upstream that keeps to none', 200_000, TO_MESSAGES, { enforces: [] }, UNTOLD],
  ['0, which is no bound of ours', 200_000, { ...TO_MESSAGES, max_tokens: 0 }, {}, UNTOLD],
  ['a bound of its own', 9000, { ...TO_MESSAGES, max_tokens: 9000 }, {}, UNTOLD],
  ['no bound, untouched', 200_000, UNBOUNDED, {}, UNTOLD],
  ['no bound, untouched, in Messages', 200_000, { ...TO_MESSAGES, protocol: 'messages' }, {}, UNTOLD],
  ['no bound, written in chat', 200_000, { ...UNBOUNDED, protocol: 'messages' }, {}, UNTOLD],
  ['no bound, written in Responses', 200_000, { ...UNBOUNDED, upstream_protocol: 'responses' }, {}, UNTOLD],
];

describe('the maximum tokens of a response', () => {
  for (const [what, output, ...asked] of OUTPUTS) {
    it(`are those of ${what}`, () => assert.equal(most(...asked).output, output));
  }

  it('count a run for every use of a tool that the upstream runs, and as many as usual without a bound', () => {
    const messages = { protocol: 'messages', upstream_protocol: 'messages' } as const;
    const runs: readonly (readonly [runs: number, ...Parameters<typeof most>])[] = [
      [4, { iterations: 4 }],
      [10, { iterations: 0 }],
      [100, { iterations: 0, protocol: 'responses', upstream_protocol: 'responses' }],
      [3, { iterations: 0 }, { tool_iterations: 3 }],
      [8, { iterations: 4, choices: 2 }],
      // A rejected use is a run as well.
      [10, { ...messages, iterations: 4 }],
      [12, { ...messages, iterations: 12 }],
      [4, { ...messages, iterations: 4 }, { tool_iterations: 3 }],
      [1, { ...messages, iterations: 1 }],
    ];
    for (const [expected, ...asked] of runs) assert.equal(most(...asked).runs, expected, JSON.stringify(asked));
  });

  it('include the summary of the conversation, which no bound of the request limits', () => {
    const { compactions, compaction_output } = most({ iterations: 4, compacts: true });
    assert.deepEqual([compactions, compaction_output], [4, LONGEST]);
  });
});

const price = fc.integer({ min: 0, max: 100_000 }).map((thousandths) => thousandths / 1000);
const of_tokens = { input: price, output: price, cache_read: price, cache_write_5m: price, cache_write_1h: price };
/** Prices of tokens and maybe of a tier of long inputs, with more kinds of them. */
const pricingOf = (more: Record<string, typeof price>) => {
  const prices = fc.record({ ...of_tokens, ...more }, { requiredKeys: ['input', 'output'] });
  const tier = fc
    .tuple(fc.integer({ min: 1, max: 300_000 }), prices)
    .map(([above_input_tokens, tokens]) => ({ above_input_tokens, ...tokens }));
  return fc
    .tuple(prices, fc.option(tier, { nil: undefined }))
    .map(
      ([flat, long_context]): PricingConfig => ({ ...flat, ...(long_context && { long_context }) }) as PricingConfig,
    );
};
const pricing = fc
  .tuple(pricingOf({ audio_input: price, audio_output: price }), price)
  .map(([tokens, web_search]) => ({ ...tokens, server_tools: { web_search } }));
const flatOrTiered = pricingOf({});
const share = fc.integer({ min: 0, max: 100 }).map((percent) => percent / 100);
/** The used shares of a request's possible usage. */
const shares = fc.record({
  total: share,
  cuts: fc.tuple(...Array.from({ length: 3 }, () => share)),
  output: share,
  tools: share,
  heard: share,
  spoken: share,
});

it('no usage within the bounds of a request costs more than the most it is found to cost', () => {
  const bounds = fc.record({
    input: fc.integer({ min: 0, max: 500_000 }),
    output: fc.integer({ min: 0, max: 100_000 }),
    uses: fc.integer({ min: 0, max: 50 }),
    cache_ttl: fc.constantFrom('none', '5m', '1h'),
    audio: fc.record({ input: fc.boolean(), output: fc.boolean() }),
    price_multiplier: fc.constantFrom(1, 0.85, 0.333, 3),
  });
  fc.assert(
    fc.property(
      pricing,
      bounds,
      shares,
      (priced, { input, output, uses, cache_ttl, audio, price_multiplier }, used) => {
        const config = stageConfig();
        const [model] = config.models;
        const models = createModelCatalog({
          ...config,
          upstreams: config.upstreams.map((upstream) => ({ ...upstream, price_multiplier })),
          models: [{ ...model!, pricing: priced }],
        });
        const [own] = models.all;
        const route = { upstream: config.upstreams[0]!.name, at: 0 };
        const most = { input, output, cache_ttl, audio, server_tools: { web_search: uses } };

        const total = Math.floor(used.total * input);
        const [a = 0, b = 0, c = 0] = used.cuts.map((cut) => Math.floor(cut * total)).toSorted((x, y) => x - y);
        const parts = [a, b - a, c - b, total - c];
        const cost = models.cost(
          own!,
          {
            input: parts[0]! + (cache_ttl === 'none' ? parts[2]! : 0) + (cache_ttl === '1h' ? 0 : parts[3]!),
            cache_read: parts[1]!,
            cache_write_5m: cache_ttl === 'none' ? 0 : parts[2]!,
            cache_write_1h: cache_ttl === '1h' ? parts[3]! : 0,
            output: Math.floor(used.output * output),
            audio: {
              input: audio.input ? Math.floor(used.heard * parts[0]!) : 0,
              output: audio.output ? Math.floor(used.spoken * used.output * output) : 0,
            },
            server_tools: { web_search: Math.floor(used.tools * uses) },
          },
          route,
        );
        assert.ok(cost <= highestCost(models, own!, most, route), `${cost}`);
      },
    ),
    { numRuns: times(2000) },
  );
});

/** No request can cost more than the bound that check prints allows a request that is alone. */

const multiplier = fc.integer({ min: 0, max: 300 }).map((hundredths) => hundredths / 100);
const DAYS = ['2026-01-01', '2026-06-01', '2027-01-01'] as const;
const row = fc
  .record({
    upstream: fc.option(fc.constantFrom('main', 'spare'), { nil: undefined }),
    from: fc.option(fc.constantFrom(...DAYS), { nil: undefined }),
    pricing: fc.option(flatOrTiered, { nil: undefined }),
    multiplier,
  })
  .map(({ upstream, from, pricing: own, multiplier: times }) => ({
    models: ['coder-*'],
    multiplier: times,
    ...(upstream && { upstream }),
    ...(from && { from }),
    ...(own && { pricing: own }),
  }));

const TYPICAL = spendLimitsSection({ defaults: { user_daily_usd: 0 }, reserve: 'typical', overshoot_percent: 0 });

const configuration = fc
  .record({
    own: flatOrTiered,
    context_window: fc.integer({ min: 1, max: 400_000 }),
    max_output_tokens: fc.integer({ min: 1, max: 400_000 }),
    contract: multiplier,
    rows: fc.array(row, { maxLength: 3 }),
  })
  .map(({ own, context_window, max_output_tokens, contract, rows }): GatewayConfig => {
    const { upstreams, models } = stageConfig();
    return stageConfig({
      upstreams: upstreams.map((upstream) => ({ ...upstream, price_multiplier: contract })),
      models: [{ ...models[0]!, context_window, max_output_tokens, pricing: own }],
      prices: { rows },
      spend_limits: TYPICAL,
    });
  });

const request = fc.record({
  input: fc.nat(1_000_000),
  output: fc.nat(1_000_000),
  cache_ttl: fc.constantFrom('none', '5m', '1h'),
  upstream: fc.constantFrom('main', 'spare'),
  at: fc.constantFrom(...DAYS.map((day) => Date.parse(day)), 0, Date.parse('2030-01-01')),
});

it('no request costs more than the bound of a limit whose share is nothing', () => {
  fc.assert(
    fc.property(configuration, fc.array(request, { minLength: 1, maxLength: 5 }), (config, requests) => {
      const { bound_nano_usd } = overshootBound(config, []);
      const models = createModelCatalog(config);
      const [model] = config.models;
      const { context_window, max_output_tokens } = model!;
      for (const { input, output, cache_ttl, ...route } of requests) {
        // The maximum reservation of check-budget.
        const most = {
          input: Math.min(input, context_window),
          output: Math.min(output, Math.max(context_window, max_output_tokens)),
          cache_ttl,
        };
        assert.ok(highestCost(models, model!, most, route) <= bound_nano_usd!);
      }
    }),
    { numRuns: times(500) },
  );
});

it('a request with every feature at the most expensive price reaches the bound', () => {
  fc.assert(
    fc.property(configuration, (config) => {
      const { most_expensive } = overshootBound(config, []);
      const models = createModelCatalog(config);
      const [model] = config.models;
      const { context_window: input, max_output_tokens } = model!;
      const most = { input, output: Math.max(input, max_output_tokens), cache_ttl: '1h' };
      const moments = [0, ...DAYS.map((day) => Date.parse(day))];
      const costs = moments.map((at) => highestCost(models, model!, most, { upstream: most_expensive!.upstream, at }));
      assert.equal(Math.max(...costs), most_expensive!.cost_nano_usd);
    }),
    { numRuns: times(500) },
  );
});

function config(base_url: string, more: Partial<GatewayConfig> = {}): GatewayConfig {
  const base = stageConfig({});
  const upstreams = [{ ...base.upstreams[0]!, base_url }];
  return { ...base, upstreams, models: [], from_model_lists: true, ...more };
}

const ELSEWHERE = 'https://models.example.com';
const AT_HOME = 'https://api.anthropic.com';

describe('without a section `models`', () => {
  test("the maximum cost of a request is the catalogue's, and unknown for an unknown provider", () => {
    const spend_limits = spendLimitsSection({ reserve: 'typical', defaults: { user_daily_usd: 50 } });
    const home = overshootBound(config(AT_HOME, { spend_limits }), []);
    assert.match(home.most_expensive?.model ?? '', /^claude-/);
    assert.ok((home.most_expensive?.cost_nano_usd ?? 0) > 0);
    assert.ok(!home.not_bounded.some((text) => text.includes('on the list of')));
    const elsewhere = overshootBound(config(ELSEWHERE, { spend_limits }), []);
    assert.equal(elsewhere.most_expensive, undefined);
    assert.ok(elsewhere.not_bounded.includes('what one request to a model on the list of main can cost'));
  });

  test('limits apply to models in the catalogue', () => {
    const rules = [{ name: 'dear', scope: ['user', 'model'], window: 'day', limit_usd: 5 }];
    const limited = config(ELSEWHERE, { spend_limits: spendLimitsSection({ rules } as never) });
    const of = (model: string) =>
      ({ of: { user: 'ana@example.com', model }, window: 'day', unit: 'nano_usd' }) as const;
    assert.equal(nameCounted(limited, of('claude-opus-4-5')).scope, 'user+model');
    assert.throws(
      () => nameCounted(limited, of('coder-1')),
      /there is no model "coder-1": the catalogue of prices does not know it/,
    );
  });

  test('what was used has a price where the catalogue has one', () => {
    const rest = { tool: null, requests: 1, uses: 0, cost_nano_usd: 1n, last_at: new Date('2026-11-20') };
    const used = (model: string): UsedPrice => ({ model, upstream: 'main', ...rest });
    const found = findPriceProblems(config(ELSEWHERE), [used('claude-sonnet-4-5'), used('coder-1')]);
    assert.deepEqual(found.used, [{ ...used('coder-1'), problem: 'gone' }]);
  });
});

const HOUR = 3_600_000;
const NOON: Past = {
  ...{ spent: 20, limit: 50, since: 0, resets_at: 24 * HOUR, now: 12 * HOUR },
  ...{ before: 0, windows_before: 0, window: 'day' },
};

describe('when a limit is used up', () => {
  test('uses the pace of its window, which is named', () => {
    assert.deepEqual(forecastOf(NOON), {
      outcome: 'lasts',
      words: 'If it goes on as since the day began, 80 % is used when it resets.',
      ends_at: null,
    });
    assert.deepEqual(forecastOf({ ...NOON, spent: 40 }), {
      outcome: 'ends',
      ends_at: new Date(15 * HOUR),
      words: 'If it goes on as since the day began, nothing is left in 3 hours, 9 hours before it resets.',
    });
  });

  test('uses the previous windows where those were faster', () => {
    const busy = { ...NOON, before: 7 * 96, windows_before: 7 };
    assert.deepEqual(forecastOf(busy), {
      outcome: 'ends',
      ends_at: new Date(19.5 * HOUR),
      words:
        'If it goes on as in the 7 days before, nothing is left in 7 hours 30 minutes, 4 hours 30 minutes before it resets.',
    });
    assert.match(forecastOf({ ...NOON, before: 96, windows_before: 1 }).words, /^If it goes on as in the day before,/);
  });

  test('ignores a window that has hardly begun, unless there is nothing else', () => {
    const early = { ...NOON, now: HOUR, spent: 10 };
    assert.equal(forecastOf(early).outcome, 'ends');
    assert.deepEqual(forecastOf({ ...early, before: 24, windows_before: 2 }), {
      outcome: 'lasts',
      words: 'If it goes on as in the 2 days before, 43 % is used when it resets.',
      ends_at: null,
    });
  });

  test('is now where nothing is left', () => {
    assert.deepEqual(forecastOf({ ...NOON, spent: 50 }), {
      outcome: 'none_left',
      ends_at: new Date(12 * HOUR),
      words: 'Nothing is left until it resets, in 12 hours.',
    });
    assert.equal(forecastOf({ ...NOON, limit: 0, spent: 0 }).outcome, 'none_left');
  });

  test('lies between now and the reset, or not at all', () => {
    const amount = fc.integer({ min: 0, max: 1e15 });
    const past = fc.record({ spent: amount, limit: amount, before: amount, windows_before: fc.nat(7) });
    fc.assert(
      fc.property(past, fc.integer({ min: 0, max: 24 * HOUR - 1 }), (drawn, now) => {
        const { outcome, ends_at, words } = forecastOf({ ...NOON, ...drawn, now });
        assert.equal(ends_at === null, outcome === 'lasts');
        if (ends_at !== null) assert.ok(Number(ends_at) >= now && Number(ends_at) <= NOON.resets_at);
        assert.doesNotMatch(words, /NaN|Infinity|undefined|-/);
      }),
    );
  });
});

const amount = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const NOW = Date.parse('2026-03-10T12:00:00Z');

const common = fc
  .record({
    scopes: fc.subarray([...SPEND_SCOPES], { minLength: 1, maxLength: 4 }),
    names: fc.tuple(...Array.from({ length: 4 }, () => anyText({ maxLength: 30 }))),
    rule: fc.string({ maxLength: 30 }),
    limit: amount,
    spent: amount,
    reserved: amount,
    in_flight: fc.nat(1000),
    most: amount,
  })
  .map(({ scopes, names, ...rest }) => ({
    ...rest,
    scope: scopes.join('+'),
    key: scopes.length === 1 ? names[0]! : JSON.stringify(names.slice(0, scopes.length)),
  }));

// Clocks of the gateway and the database need not agree.
const moment = fc.integer({ min: NOW - 100_000, max: NOW + 32 * 86_400_000 });
const counted = fc.oneof(
  fc.record({ unit: fc.constant('nano_usd' as const), window: fc.constantFrom(...SPEND_WINDOWS), resets_at: moment }),
  fc.record({
    unit: fc.constantFrom('requests' as const, 'tokens' as const),
    window: fc.constant('minute' as const),
    resets_at: moment,
  }),
  fc.constant({ unit: 'requests', window: 'open', resets_at: null } as const),
);
const limit_status = fc.tuple(common, counted).map(([one, other]): LimitStatus => ({ ...one, ...other }));

it('any rejection can be sent: whole seconds, proper headers, a sentence and details in JSON', () => {
  const exceeded = fc.array(limit_status, { minLength: 1, maxLength: 5 });
  const needs = fc.record({ amount_nano_usd: amount, most_nano_usd: amount, tokens: amount });
  const advice = fc.option(fc.constant('Ask Bob.'), { nil: undefined });
  fc.assert(
    fc.property(exceeded, needs, advice, (statuses, needed, said) => {
      const style = { status: 402, advice: said, headers: limitHeaders('acme'), time_zone: 'Asia/Kolkata' };
      const { code, status, message, headers, details } = refuseForLimits(statuses, needed, style, NOW);
      const [first] = statuses;
      const in_money = first!.unit === 'nano_usd';
      assert.deepEqual([code, status], in_money ? ['spend_limit_exceeded', 402] : ['rate_limit_exceeded', 429]);
      for (const [name, value] of Object.entries(headers)) {
        validateHeaderName(name);
        validateHeaderValue(name, value);
      }
      const final = headers['x-should-retry'] === 'false';
      if (in_money || !final) assert.match(headers['retry-after']!, /^[1-9]\d*$/);
      else assert.equal(headers['retry-after'], undefined);
      assert.ok(final || !in_money);
      assert.ok(message.includes(`Spend rule ${first!.rule}`) && message.endsWith('.'), message);
      if (said !== undefined) assert.match(message, /\. Ask Bob\. Spend rule /);
      assert.deepEqual(JSON.parse(JSON.stringify(details)), details);
      assert.equal((details.exceeded as unknown[]).length, statuses.length);
      assert.doesNotMatch(
        message,
        /(?:undefined|NaN|null) (?:USD|requests?|tokens?|seconds?|is|used|reserved)|resets (?!\d{4}-\d\d-\d\d \d\d:\d\d Asia\/Kolkata)/,
      );
    }),
  );
});
