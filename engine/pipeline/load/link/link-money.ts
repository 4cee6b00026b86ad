/** Checks prices and spend limits beyond their schema. @module */
import type { GatewayConfig, ModelConfig } from '../../../base/contract/config.ts';
import { matchesGlob } from '../../../base/kit/glob.ts';
import { oneOf } from '../../../base/kit/text/suggest.ts';
import type { Findings } from '../../../base/source/findings.ts';
import {
  childOf,
  entriesOf,
  entryOf,
  itemsOf,
  type MapNode,
  type Node,
  nodeAt,
  quote,
  textOf,
} from '../../../base/source/node.ts';
import { createPriceBook, midnightOf, type PriceBook } from '../../../domain/budget/prices/prices.ts';
import { reaches } from '../../../domain/upstreams/routes.ts';
import type { KnownNames } from '../annotations.ts';
import { itemsAt, reportUnknown, textsAt } from './link-keys.ts';

/** Checks spend rules and price entries; tolerates values that validation rejected. */
export function linkMoney(root: MapNode, known: KnownNames, findings: Findings): void {
  for (const rule of itemsAt(root, 'spend_limits.rules')) {
    checkSpendRule(rule, findings);
  }
  for (const row of itemsAt(root, 'prices.rows')) checkPriceRow(row, known, findings);
  const percent = entryOf(childOf(root, 'spend_limits'), 'overshoot_percent');
  if (percent === undefined || textOf(childOf(root, 'spend_limits', 'reserve')) !== 'worst_case') return;
  const message = '`overshoot_percent` has no effect: with `reserve: worst_case` no limit is exceeded';
  findings.report('W7050', percent.key_mark, message, { help: 'remove it, or write reserve: typical' });
}

const AMOUNTS_IN_USD = ['limit_usd', 'limit_usd_by_group'];
const OTHER_AMOUNTS = ['concurrency', 'requests_per_minute', 'tokens_per_minute'];

function checkSpendRule(rule: Node, findings: Findings): void {
  const window = entryOf(rule, 'window');
  const has = (key: string) => entryOf(rule, key) !== undefined;
  // Validation rejected a rule without any amount.
  if (window !== undefined && OTHER_AMOUNTS.some(has) && !AMOUNTS_IN_USD.some(has)) {
    findings.report('C3002', window.key_mark, '`limit_usd` is missing: `window` applies only to amounts in USD', {
      help: `add limit_usd or limit_usd_by_group, or remove \`window\`: ${
        has('concurrency') ? 'concurrency has no window' : 'requests and tokens are limited per minute'
      }`,
    });
  }
  const by_group = entryOf(rule, 'limit_usd_by_group');
  for (const { key, key_mark } of entriesOf(by_group?.value)) {
    if (key.trim() !== '') continue;
    findings.report('C3007', key_mark, 'the name of the group is empty', {
      help: 'name a group of the identity provider or a token group; limit_usd applies to everyone else',
    });
  }
  const scope_node = childOf(rule, 'scope');
  const scopes = scope_node?.kind === 'list' ? itemsOf(scope_node).map(textOf) : [textOf(scope_node)];
  // Validation rejected other values.
  if (by_group === undefined || scope_node === undefined || scopes.some((scope) => scope === undefined)) return;
  if (scopes.includes('user') || scopes.includes('token')) return;
  const shown = scopes.join(' and ');
  findings.report('C4023', by_group.key_mark, `callers of different groups share one limit per ${shown}`, {
    help: `count each caller: scope: [user, ${scopes.join(', ')}]; or write rules with \`when\` and limit_usd`,
  });
}

function checkPriceRow(row: Node, { upstream: upstreams, model: ids }: KnownNames, findings: Findings): void {
  if (upstreams !== undefined)
    for (const upstream of textsAt(row, 'upstream')) reportUnknown(upstream, 'upstream', upstreams, findings);
  for (const { text, mark } of ids === undefined ? [] : textsAt(row, 'models.*')) {
    if (ids!.some((id) => matchesGlob(text, id))) continue;
    findings.report('W7070', mark, `no model matches ${quote(text)}`, {
      help: oneOf(text, ids!, 'configured models', 'there are no models'),
    });
  }
  const from = dayOf(childOf(row, 'from'), findings);
  const until = dayOf(childOf(row, 'until'), findings);
  if (from === undefined || until === undefined || from < until) return;
  findings.report('C4023', childOf(row, 'until')!.mark, 'the price never applies: it ends before it begins', {
    found: textOf(childOf(row, 'until')) ?? '',
    expected: `a day after ${textOf(childOf(row, 'from'))}`,
    help: '`until` is the first day on which the price no longer applies',
  });
}

/** Midnight UTC of a date; `undefined` without one, or after a finding. */
function dayOf(node: Node | undefined, findings: Findings): number | undefined {
  const text = textOf(node);
  // Validation rejected other forms.
  if (node === undefined || text === undefined || !/^\d{4}-\d{2}-\d{2}$/.test(text)) return undefined;
  const midnight = midnightOf(text);
  if (midnight === undefined) {
    findings.report('C4023', node.mark, `there is no day ${quote(text)}`, { expected: 'a date, YYYY-MM-DD' });
  }
  return midnight;
}

/** Checks that every model has a price at each of its upstreams, without gaps. Warns about price entries that never apply. */
export function checkPrices(config: GatewayConfig, root: MapNode, findings: Findings): void {
  let book: PriceBook;
  try {
    book = createPriceBook(config);
  } catch (error) {
    const { mark } = childOf(root, 'prices') ?? childOf(root, 'models') ?? root;
    findings.report('C3005', mark, 'a price cannot be represented exactly', { expected: (error as Error).message });
    return;
  }
  const used = new Set<number | undefined>();
  for (const model of config.models) {
    if (model.pricing === undefined) checkPriced(model, config, book, root, findings);
    for (const { name } of config.upstreams) for (const { row } of book.periods(model.id, name)) used.add(row);
  }
  config.prices?.rows.forEach(({ models: globs }, index) => {
    // Entries for unknown models are reported as such.
    if (used.has(index) || !config.models.some(({ id }) => globs.some((glob) => matchesGlob(glob, id)))) return;
    const { mark } = nodeAt(root, `/prices/rows/${index}`);
    findings.report('W7070', mark, 'the price never applies: entries above it match first', {
      help: 'move it up, or remove it: the first entry that matches applies',
    });
  });
}

function checkPriced(
  model: ModelConfig,
  config: GatewayConfig,
  book: PriceBook,
  root: MapNode,
  findings: Findings,
): void {
  const { id } = model;
  // The catalogue knows the price of a model at its provider, which need not be every upstream.
  const reached = model.catalogue && reaches(model, config.routing);
  for (const { name } of config.upstreams) {
    if (reached?.has(name) === false) continue;
    const gap = book.periods(id, name).find(({ price }) => price === undefined);
    if (gap === undefined) continue;
    const date = (moment: number) => new Date(moment).toISOString().slice(0, 10);
    const before = Number.isFinite(gap.until) ? ` before ${date(gap.until)}` : '';
    const after = Number.isFinite(gap.from) ? ` from ${date(gap.from)}` : '';
    const when = `${after}${before}`;
    const where = config.upstreams.length > 1 || when !== '' ? ` at ${quote(name)}${when}` : '';
    const { mark } = textsAt(root, 'models.*.id').find(({ text }) => text === id)!;
    const or_date =
      before !== '' ? ', or remove `from` of the row' : after !== '' ? ', or remove `until` of the row' : '';
    findings.report('C4041', mark, `the model ${quote(id)} has no price${where}`, {
      help: `the price catalogue has no price for this model at ${quote(name)}: add \`pricing\` to the model, or \`rows\` or \`unknown_model\` under \`prices\`${or_date}`,
    });
    return;
  }
}
