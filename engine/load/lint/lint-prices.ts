/** Warns about prices and multipliers that are off by the power of ten of another way to write them. */
import { keyName } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entriesOf, itemsOf, type MapNode, type Node, type ScalarNode } from '../../source/node.ts';

/** No provider asks less for a million tokens; what a single token costs is always below it. */
const LEAST_USD_PER_MILLION = 0.001;

/** Nothing that a contract, a tier or a region makes dearer is dearer than this. */
const MAX_MULTIPLIER = 10;

const TOKEN_PRICES: ReadonlySet<string> = new Set([
  'input',
  'output',
  'cache_read',
  'cache_write_5m',
  'cache_write_1h',
  'audio_input',
  'audio_output',
]);
const MULTIPLIERS: ReadonlySet<string> = new Set(['price_multiplier', 'multiplier']);

/** A decimal number times a power of ten, without the digits that binary fractions add. */
const shifted = (value: number, digits: number): string => String(Number(`${value}e${digits}`));

function lintPrice(key: string, { value, mark }: ScalarNode, findings: Findings): boolean {
  if (typeof value !== 'number' || value === 0 || value >= LEAST_USD_PER_MILLION) return false;
  findings.report('W7180', mark, `${keyName(key)} looks like the price of one token`, {
    found: `${value} USD per million tokens`,
    help: `prices are for a million tokens: write ${shifted(value, 6)}`,
  });
  return true;
}

function lintMultiplier(key: string, { value, mark }: ScalarNode, findings: Findings): void {
  if (typeof value !== 'number' || value <= MAX_MULTIPLIER) return;
  findings.report('W7181', mark, `${keyName(key)} makes everything ${value} times as dear`, {
    help: `for ${value} percent of the price write ${shifted(value, -2)}`,
  });
}

/** Looks at all prices in a part of the configuration; of those that are written alike, one is reported. */
function lintWithin(node: Node, findings: Findings): void {
  let reported = false;
  for (const { key, value } of entriesOf(node)) {
    if (value.kind !== 'scalar') lintWithin(value, findings);
    else if (MULTIPLIERS.has(key)) lintMultiplier(key, value, findings);
    else if (!reported && TOKEN_PRICES.has(key)) reported = lintPrice(key, value, findings);
  }
}

/** Looks at the prices of models, of rows of `prices` and of upstreams as they are written. */
export function lintPrices(root: MapNode, findings: Findings): void {
  const models = itemsOf(childOf(root, 'models'));
  const rows = itemsOf(childOf(root, 'prices', 'rows'));
  for (const node of [...models, ...rows, ...itemsOf(childOf(root, 'upstreams'))]) lintWithin(node, findings);
}
