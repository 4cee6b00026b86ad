import type { GatewayConfig, ModelConfig, PriceRowConfig, PricesConfig } from '../../../base/contract/config.ts';
import { type AccessRule, accessRules } from '../../../base/rules/config-rules.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import { asChange, type Change, compareNames, compareValues, diffByName, shown, type Usable } from './change.ts';
import { diffLimits, type ReadSpending } from './limits.ts';
import { diffPolicies } from './policies.ts';
import { diffModels, diffRoutes } from './routes.ts';
import { diffPipelines, diffSettings, diffUpstreams } from './settings.ts';

/** Effects of a new configuration. Reports nothing twice, and no difference without effect. */
export async function diffConfigurations(
  before: Usable,
  after: Usable,
  readSpending?: ReadSpending,
): Promise<readonly Change[]> {
  return [
    ...diffModels(before.config, after.config),
    ...diffAccess(before.config, after.config),
    ...diffPolicies(before, after),
    ...diffRoutes(before.config, after.config),
    ...(await diffLimits(before.config, after.config, readSpending)),
    ...diffPrices(before.config, after.config),
    ...diffUpstreams(before, after),
    ...diffPipelines(before, after),
    ...diffSettings(before, after),
  ];
}

const formatRule = ({ logic, mode }: AccessRule): string =>
  `${mode === 'shadow' ? 'would reject, in shadow mode,' : 'rejects'} ${logic === true ? 'everything' : `when ${formatCondition(logic)}`}`;

function diffAccess(before: GatewayConfig, after: GatewayConfig): Change[] {
  const byName = (config: GatewayConfig) => new Map(accessRules(config).map((rule) => [rule.name, rule]));
  return diffByName('access', [byName(before), byName(after)], {
    gone: (old) => `is gone: ${formatRule(old)}`,
    added: (rule) => `is new: ${formatRule(rule)}`,
    changed: (old, now) => [
      ...(formatRule(old) === formatRule(now) ? [] : [`${formatRule(old)} -> ${formatRule(now)}`]),
      ...(old.message === now.message ? [] : [`message for clients: ${shown(old.message)} -> ${shown(now.message)}`]),
    ],
  });
}

const DERIVED = ['cache_read', 'cache_write_5m', 'cache_write_1h', 'audio_input', 'audio_output'];
const ELSEWHERE = 'the price of the section prices or the catalogue';

function termsOf({ pricing, context_window, max_output_tokens }: ModelConfig): object {
  const derived = Object.fromEntries(DERIVED.map((key) => [key, 'derived']));
  return { pricing: pricing === undefined ? ELSEWHERE : { ...derived, ...pricing }, context_window, max_output_tokens };
}

/** Name of an entry of `prices.rows`: `coder-* at main from 2027-01-01`. */
function nameOf({ models, upstream, from, until }: PriceRowConfig): string {
  const parts = [models.join(', '), upstream && `at ${upstream}`, from && `from ${from}`, until && `until ${until}`];
  return parts.filter(Boolean).join(' ');
}

/** Changes of `prices` by entry; of several entries with one name only the first matches. */
function diffSection(before: PricesConfig | undefined, after: PricesConfig | undefined): Change[] {
  const rowsOf = (prices: PricesConfig | undefined) => Map.groupBy(prices?.rows ?? [], nameOf);
  const [old_rows, new_rows] = [rowsOf(before), rowsOf(after)];
  const { kept } = compareNames(old_rows.keys(), new_rows.keys());
  const is_moved = [...new_rows.keys()].filter((name) => old_rows.has(name)).join('\n') !== kept.join('\n');
  const sectionOf = (prices: PricesConfig | undefined, rows: ReturnType<typeof rowsOf>) => ({
    unknown_model: prices?.unknown_model,
    ...Object.fromEntries(
      [...rows].map(([name, [row]]) => [
        `rows: ${name}`,
        { pricing: row!.pricing ?? 'that of the model', multiplier: row!.multiplier },
      ]),
    ),
  });
  return [
    ...compareValues(sectionOf(before, old_rows), sectionOf(after, new_rows)).flatMap(({ path, change }) =>
      asChange('prices', 'prices', [`${path} ${change}`]),
    ),
    ...asChange('prices', 'prices.rows', is_moved ? ['other order; the first entry that matches applies'] : []),
  ];
}

/** Prices and sizes of models in both configurations, and the section `prices`. */
export function diffPrices(before: GatewayConfig, after: GatewayConfig): Change[] {
  const old_models = new Map(before.models.map((model) => [model.id, model]));
  const of_models = after.models.flatMap((model): Change[] => {
    const old_model = old_models.get(model.id);
    if (old_model === undefined) return [];
    const changes = compareValues(termsOf(old_model), termsOf(model));
    return asChange(
      'prices',
      model.id,
      changes.map(({ path, change }) => `${path} ${change}`),
    );
  });
  return [...of_models, ...diffSection(before.prices, after.prices)];
}
