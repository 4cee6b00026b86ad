import { limitRefusals } from '../audit/limit-refusals.ts';
import { startOfDay } from '../money/limits/find-limits.ts';
import { timeZone } from '../money/limits/limit-statuses.ts';
import { countRules, type RuleCount } from '../money/limits/rule-counts.ts';
import { describeLimit } from '../money/limits/spend-limits.ts';
import { writtenLimit } from '../money/limits/written-limits.ts';
import { formatCondition } from '../rules/format-condition.ts';
import type { AdminOptions, Asked } from './asked.ts';

/** The limits of gateway.yaml in words, and what they do today. */
export function limitRuleOperations({ config, database, clock }: AdminOptions) {
  const at = { config, database, clock };
  return {
    async listLimitRules(_: Asked, _nothing: object) {
      const since = await startOfDay(at);
      const [counts, refusals] = await Promise.all([countRules(at), limitRefusals(database, since)]);
      const rules = Map.groupBy(counts, ({ limit }) => limit.name);
      return {
        since,
        time_zone: timeZone(config),
        rules: [...rules].map(([name, limits]) => {
          const { rule: _rule, ...today } = refusals.find(({ rule }) => rule === name) ?? NONE_REFUSED;
          return { ...describeRule(name, limits), ...today };
        }),
      };
    },
  };
}

const NONE_REFUSED = { rule: '', refused: 0, refused_people: 0, would_refuse: 0 };

function describeRule(rule: string, counts: readonly RuleCount[]) {
  const { mode, logic } = counts[0]!.limit;
  return {
    rule,
    mode,
    condition: logic === true ? null : formatCondition(logic),
    limits: counts.map(({ limit, ...count }) => ({ ...writtenLimit(limit), words: describeLimit(limit), ...count })),
  };
}
