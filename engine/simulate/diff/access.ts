import type { GatewayConfig } from '../../contract/config.ts';
import { type AccessRule, accessRules } from '../../rules/config-rules.ts';
import { formatCondition } from '../../rules/format-condition.ts';
import { type Change, diffByName, shown } from './change.ts';

const formatRule = ({ logic, mode }: AccessRule): string =>
  `${mode === 'shadow' ? 'would refuse, in shadow mode,' : 'refuses'} ${logic === true ? 'everything' : `when ${formatCondition(logic)}`}`;

/** Rules of `access.rules` that come, go or change. */
export function diffAccess(before: GatewayConfig, after: GatewayConfig): Change[] {
  const byName = (config: GatewayConfig) => new Map(accessRules(config).map((rule) => [rule.name, rule]));
  return diffByName('access', [byName(before), byName(after)], {
    gone: (old) =>
      `is gone; before it ${formatRule(old)
        .replace('would refuse', 'would have refused')
        .replace(/^refuses/, 'refused')}`,
    added: (rule) => `is new: ${formatRule(rule)}`,
    changed: (old, now) => [
      ...(formatRule(old) === formatRule(now) ? [] : [`${formatRule(old)} -> ${formatRule(now)}`]),
      ...(old.message === now.message ? [] : [`tells clients: ${shown(old.message)} -> ${shown(now.message)}`]),
    ],
  });
}
