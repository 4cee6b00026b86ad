/** The names that a configuration knows, and what is said of others. */
import { matchesGlob } from '../../kit/glob.ts';
import { didYouMean, oneOf } from '../../kit/text/suggest.ts';
import type { FactNames, NameSet } from '../../rules/check-names.ts';
import { quote } from '../../source/describe.ts';
import { childOf, entriesOf, itemsOf, type MapNode, type Node, textOf } from '../../source/node.ts';
import type { KnownNames } from '../annotations.ts';
import { groupNames, openNames } from './known-groups.ts';

const namesIn = (nodes: readonly Node[], key: string): readonly string[] =>
  nodes.flatMap((node) => textOf(childOf(node, key)) ?? []);

/** Patterns by which a name is likely to be meant: `coder-*` of `coder-1`. */
const patternsOf = (name: string): string[] =>
  [...name.matchAll(/[-_.:/@]/g)].map(({ index }) => `${name.slice(0, index + 1)}*`);

/** Names that are all listed: any other is a mistake. */
function listedNames(what: string, many: string, known: readonly string[], meant = new Map<string, string>()): NameSet {
  const help = (name: string) => meant.get(name) ?? oneOf(name, known, many);
  return {
    problemOf(name) {
      if (known.includes(name)) return undefined;
      return { code: 'W7202', message: `there is no ${what} ${quote(name)}`, help: help(name) };
    },
    problemOfGlob(glob) {
      if (known.some((name) => matchesGlob(glob, name))) return undefined;
      const patterns = glob.endsWith('*') ? known.flatMap(patternsOf) : [];
      const meant = didYouMean(glob, patterns) ?? help(glob);
      return { code: 'W7202', message: `no ${what} matches ${quote(glob)}`, help: meant };
    },
  };
}

/** Models are compared by their ids: an alias is resolved before conditions see it. */
function modelNames(models: readonly Node[], ids: readonly string[]): ReadonlyMap<string, NameSet> {
  const aliases = new Map<string, string>();
  for (const model of models) {
    for (const alias of itemsOf(childOf(model, 'aliases'))) {
      const name = textOf(alias) ?? textOf(childOf(alias, 'name'));
      const id = textOf(childOf(model, 'id')) ?? '';
      if (name === undefined || ids.includes(name)) continue;
      aliases.set(name, `that is an alias of ${id}: write its id, or look at { var: request.alias }`);
    }
  }
  const families = [...new Set(namesIn(models, 'family'))];
  const upstream_ids = models.flatMap((model) =>
    entriesOf(childOf(model, 'upstream_ids')).flatMap(({ value }) => textOf(value) ?? []),
  );
  const by_id = listedNames('model', 'models', ids, aliases);
  return new Map([
    ['request.model', by_id],
    ['request.other_models', by_id],
    ['request.alias', listedNames('alias', 'aliases', [...aliases.keys()])],
    ['model.family', listedNames('family', 'families', families)],
    ['route.upstream_model', listedNames('model of an upstream', 'models', [...new Set([...upstream_ids, ...ids])])],
  ]);
}

/** Names of teams or projects: access tokens may be made for any other. */
function assignedNames(root: MapNode, what: 'team' | 'project'): NameSet {
  const known = namesIn(itemsOf(childOf(root, 'auth', `${what}s`)), 'name');
  return openNames(what, known, `If both exist, name them under \`auth.${what}s\``);
}

/** The names that facts can have, as far as a gateway.yaml tells; tolerates values that validation already refused. */
export function factNames(root: MapNode, names: KnownNames): FactNames {
  const { upstream: upstreams, model: ids, 'token-group': token_groups } = names;
  const known = new Map<string, NameSet>();
  const groups = groupNames(root, token_groups);
  if (groups !== undefined) known.set('principal.groups', groups);
  if (token_groups !== undefined) {
    known.set('principal.token.group', listedNames('token group', 'token groups', token_groups));
  }
  known.set('principal.roles', listedNames('role', 'roles', ['admin']));
  known.set('principal.team', assignedNames(root, 'team'));
  known.set('principal.project', assignedNames(root, 'project'));
  if (ids !== undefined)
    for (const [path, set] of modelNames(itemsOf(childOf(root, 'models')), ids)) known.set(path, set);
  if (upstreams !== undefined) {
    const regions = [...new Set(namesIn(itemsOf(childOf(root, 'upstreams')), 'region'))];
    known.set('route.upstream', listedNames('upstream', 'upstreams', upstreams));
    known.set('route.candidates', listedNames('upstream', 'upstreams', upstreams));
    known.set('route.region', listedNames('upstream in the region', 'regions', regions));
  }
  const rules = itemsOf(childOf(root, 'routing', 'rules'));
  const rule_names = rules.map((rule, index) => textOf(childOf(rule, 'name')) ?? `routing.rules[${index}]`);
  known.set('route.rule', listedNames('routing rule', 'routing rules', [...rule_names, 'default']));
  return known;
}
