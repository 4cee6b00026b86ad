import type { GatewayConfig } from '../../contract/config.ts';
import { type AccessRule, accessRules } from '../../rules/config-rules.ts';
import { formatCondition } from '../../rules/format-condition.ts';
import { type Change, diffByName, shown } from './change.ts';

function formatRule({ logic, mode }: AccessRule): string {
  return `refuses requests when ${formatCondition(logic)}${mode === 'shadow' ? ', only recorded' : ''}`;
}

/** Rules on who may ask for what that come, go or change. Their order decides nothing but which of two messages is told. */
export function diffAccess(before: GatewayConfig, after: GatewayConfig): Change[] {
  const byName = (config: GatewayConfig) => new Map(accessRules(config).map((rule) => [rule.name, rule]));
  return diffByName('access', [byName(before), byName(after)], {
    gone: (old) => `is gone; before: ${formatRule(old)}`,
    added: (rule) => `is new: ${formatRule(rule)}`,
    changed: (old, now) => [
      ...(formatRule(old) === formatRule(now) ? [] : [`${formatRule(old)} -> ${formatRule(now)}`]),
      ...(old.message === now.message ? [] : [`tells clients: ${shown(old.message)} -> ${shown(now.message)}`]),
    ],
  });
}
