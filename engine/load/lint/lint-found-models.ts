import type { GatewayConfig } from '../../contract/config.ts';
import { matchesGlob } from '../../kit/glob.ts';
import { didYouMean } from '../../kit/text/suggest.ts';
import { CATALOGUE_DATE, idsAt } from '../../money/prices/catalogue.ts';
import { modelById } from '../../money/prices/known-models.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, itemsOf, type MapNode, type Node, textOf } from '../../source/node.ts';

const HELP =
  'without a section `models` only models of the catalogue are served: write one with every model that is to be served, this one with `pricing`';

/** Warns of models that a gateway.yaml without a section `models` refers to, and that the catalogue of prices does not know. */
export function lintFoundModels(config: GatewayConfig, root: MapNode, findings: Findings): void {
  if (!config.from_model_lists) return;
  const sections: readonly (readonly [string, readonly string[]])[] = [
    ['routing', ['rules']],
    ['access', ['rules']],
    ['token_groups', []],
  ];
  const entries = sections.flatMap(([section, keys]) => itemsOf(childOf(root, section, ...keys)));
  const at_homes = config.upstreams.map(({ base_url }) => idsAt(base_url));
  const ids = [...new Set(at_homes.flat())];
  // Elsewhere the catalogue has no list of what a glob could match.
  const are_complete = at_homes.every(({ length }) => length > 0);
  for (const entry of entries) {
    for (const node of itemsOf(childOf(entry, 'models')))
      checkModel(node, config, are_complete ? ids : undefined, findings);
    for (const node of itemsOf(childOf(entry, 'families'))) {
      findings.report('W7002', node.mark, `no model is of the family ${quote(textOf(node) ?? '')}`, {
        help: 'a family is said of a model under `models`; without that section write globs: models: [...]',
      });
    }
  }
}

function checkModel(node: Node, config: GatewayConfig, ids: readonly string[] | undefined, findings: Findings): void {
  const text = textOf(node);
  if (text === undefined) return;
  const is_glob = text.includes('*');
  if (is_glob ? (ids?.some((id) => matchesGlob(text, id)) ?? true) : modelById(text, config) !== undefined) return;
  const what = is_glob ? `has no model that matches ${quote(text)}` : `does not know the model ${quote(text)}`;
  findings.report('W7190', node.mark, `the catalogue of prices (${CATALOGUE_DATE}) ${what}`, {
    help: didYouMean(text, ids ?? [], HELP),
  });
}
