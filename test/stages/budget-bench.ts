/** A request that is about to leave, and check-budget with the limits of a test. */
import type { GatewayConfig, LimitStatus, SpendRuleConfig } from '../../engine/api.ts';
import { type Facts, openStage, type ServiceStubs, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import checkBudget from '../../stages/check-budget.ts';
import { spendLimitsSection } from '../support/spend-limits.ts';

export const NOON = Date.parse('2026-03-10T12:00:00Z');
export const MIDNIGHT = Date.parse('2026-03-11T00:00:00Z');
export const USD = 1_000_000_000;

const ROUTED: Facts = {
  'request.id': 'req-1',
  'request.protocol': 'messages',
  'request.received_at': NOON - 5,
  'request.model': 'coder-1',
  'request.input_tokens_estimate': 800,
  'request.input_tokens_max': 1000,
  'request.max_tokens': 500,
  'request.cache.ttl': 'none',
  'principal.id': 'user:alice@example.com',
  'principal.email': 'alice@example.com',
  'principal.groups': ['staff'],
  'principal.token.id': 'tok_1',
  'route.upstream': 'main',
  'route.upstream_model': 'coder-1',
};

export type SpendLimits = NonNullable<GatewayConfig['spend_limits']>;

export function spendLimits(more: Partial<SpendLimits> = {}): SpendLimits {
  return spendLimitsSection({ defaults: { user_daily_usd: 50, team_monthly_usd: 2000 }, ...more });
}

/** Limits that are rules only. */
export function ruleLimits(
  ...rules: readonly (Partial<SpendRuleConfig> & Pick<SpendRuleConfig, 'scope'>)[]
): SpendLimits {
  return spendLimits({ defaults: {}, rules: rules.map((rule) => ({ name: 'rule', mode: 'enforce', ...rule })) });
}

export interface Situation extends ServiceStubs {
  readonly facts?: Facts;
  readonly spend_limits?: SpendLimits;
  readonly charge?: 'full' | 'nothing';
  readonly models?: GatewayConfig['models'];
  readonly header_prefix?: string;
}

export function enter(situation: Situation = {}) {
  const { facts = {}, spend_limits, models, header_prefix = 'vendor', charge = 'full', ...stage_options } = situation;
  const config = stageConfig({ ...(spend_limits && { spend_limits }), ...(models && { models }) });
  const named = { ...config, server: { ...config.server, profile: { header_prefix } } };
  const stage = openStage(checkBudget, { options: { charge }, config: named, now: NOON, ...stage_options });
  return { stage, ctx: stage.request({ facts: { ...ROUTED, ...facts } }) };
}

export async function reserved(situation: Situation = {}) {
  const { stage, ctx } = enter(situation);
  await stage.hooks.request!(ctx);
  return stage.reservations[0]!;
}

/** A daily limit of 50 USD with half a cent of it left. */
export function limit_status(more: Partial<LimitStatus> = {}): LimitStatus {
  return {
    scope: 'user',
    key: 'alice@example.com',
    window: 'day',
    unit: 'nano_usd',
    rule: 'defaults.user_daily_usd',
    limit: 50 * USD,
    spent: 49_995_000_000,
    reserved: 0,
    in_flight: 0,
    most: 0,
    resets_at: MIDNIGHT,
    ...more,
  };
}
