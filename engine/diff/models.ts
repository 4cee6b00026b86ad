import type { GatewayConfig, ModelConfig, PricingConfig } from '../config.ts';
import { callerWithToken, createModelCatalog } from '../services/models.ts';
import { type Change, compareNames, compareValues, shown } from './change.ts';

/** Token groups of a configuration, the implicit one included. */
export function groupsOf({ token_groups }: GatewayConfig): string[] {
  return token_groups.length === 0 ? ['all'] : token_groups.map(({ name }) => name);
}

function modelsOf(config: GatewayConfig): Map<string, string[]> {
  const catalog = createModelCatalog(config);
  const ids = (group: string) =>
    catalog.all.filter((model) => catalog.refusal(callerWithToken(group), model) === undefined).map(({ id }) => id);
  return new Map(groupsOf(config).map((group) => [group, ids(group)]));
}

/** Models that token groups gain and lose. */
export function diffModels(before: GatewayConfig, after: GatewayConfig): Change[] {
  const [old_models, new_models] = [modelsOf(before), modelsOf(after)];
  const { kept, lost, gained } = compareNames(old_models.keys(), new_models.keys());
  const changes: Change[] = [
    ...lost.map((group) => ({
      section: 'models' as const,
      subject: `group ${group}`,
      change: 'is gone: its tokens can use no model any more',
    })),
    ...gained.map((group) => ({
      section: 'models' as const,
      subject: `group ${group}`,
      change: `is new, with ${new_models.get(group)!.join(', ') || 'no model'}`,
    })),
  ];
  for (const group of kept) {
    const models = compareNames(old_models.get(group)!, new_models.get(group)!);
    const parts = [
      ...(models.lost.length > 0 ? [`loses ${models.lost.join(', ')}`] : []),
      ...(models.gained.length > 0 ? [`gains ${models.gained.join(', ')}`] : []),
    ];
    if (parts.length > 0) changes.push({ section: 'models', subject: `group ${group}`, change: parts.join('; ') });
  }
  return changes;
}

const SIZES = ['context_window', 'max_output_tokens'] as const;
const PRICES = ['input', 'output', 'cache_read', 'cache_write_5m', 'cache_write_1h'] as const;

/** What a model costs beside its ordinary tokens. */
function feesOf({ pricing }: ModelConfig): object {
  return { long_context: pricing?.long_context ?? {}, server_tools: pricing?.server_tools ?? {} };
}

function tokenPrices({ pricing: before }: ModelConfig, { pricing: after }: ModelConfig): string[] {
  if (before === undefined && after === undefined) return [];
  if (before === undefined || after === undefined) {
    const told = ({ input, output }: PricingConfig) => `input ${input} and output ${output} USD per million tokens`;
    const other = 'what the section prices says';
    return [`costs ${before ? told(before) : other} -> ${after ? told(after) : other}`];
  }
  const price = (pricing: PricingConfig, key: (typeof PRICES)[number]) => shown(pricing[key] ?? 'derived from input');
  return PRICES.filter((key) => before[key] !== after[key]).map(
    (key) => `${key} ${price(before, key)} -> ${price(after, key)} USD per million tokens`,
  );
}

/** Prices and sizes of models that are in both. */
export function diffPrices(before: GatewayConfig, after: GatewayConfig): Change[] {
  const old_models = new Map(before.models.map((model) => [model.id, model]));
  return after.models.flatMap((model) => {
    const old_model = old_models.get(model.id);
    if (old_model === undefined) return [];
    const prices = tokenPrices(old_model, model);
    const sizes = SIZES.filter((key) => old_model[key] !== model[key]).map(
      (key) => `${key} ${old_model[key]} -> ${model[key]}`,
    );
    const fees = compareValues(feesOf(old_model), feesOf(model)).map(({ path, change }) => `${path}: ${change}`);
    const lines = [...prices, ...fees, ...sizes];
    if (lines.length === 0) return [];
    return [{ section: 'prices' as const, subject: model.id, change: lines[0]!, details: lines.slice(1) }];
  });
}
