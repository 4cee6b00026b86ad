/** The names that a configuration defines, and findings about other names. @module */
import { matchesGlob } from '../../../base/kit/glob.ts';
import { almost, oneOf } from '../../../base/kit/text/suggest.ts';
import type { FactNames, NameProblem, NameSet } from '../../../base/rules/check.ts';
import type { Findings } from '../../../base/source/findings.ts';
import { childOf, entriesOf, type MapNode, quote, textOf } from '../../../base/source/node.ts';
import type { KnownNames } from '../annotations.ts';
import { GROUPS } from './link-auth.ts';
import { itemsAt, textsAt, type Written } from './link-keys.ts';

/** An open set of names: an unknown name is a mistake only if it is almost a known one. */
function openNames(what: string, known: readonly string[], otherwise: string): NameSet {
  return {
    problemOf(name) {
      const meant = known.includes(name) ? undefined : almost(name, known);
      if (meant === undefined) return undefined;
      const message = `the ${what} ${quote(name)} is almost ${quote(meant)}`;
      return { code: 'W7201', message, help: `did you mean \`${meant}\`? ${otherwise}` };
    },
    problemOfGlob: () => undefined,
  };
}

/** Keys that name groups of the identity provider, the most reliable first. */
const GROUP_SOURCES = [
  'known_groups.*',
  'oidc.keep_groups.*',
  'oidc.allowed_groups.*',
  'admin_groups.*',
  'teams.*.groups.*',
  'projects.*.groups.*',
];

const MAKE_KNOWN = 'If both exist, list the groups of the identity provider under `auth.known_groups`';

/** The groups that a request can have; `undefined` where the configuration has no groups. */
function groupNames(root: MapNode, token_groups: readonly string[] | undefined): NameSet | undefined {
  if (token_groups === undefined) return undefined;
  const has_oidc = childOf(root, 'auth', 'oidc') !== undefined;
  // A file without either is probably unfinished.
  if (!has_oidc && childOf(root, 'token_groups') === undefined) return undefined;
  const kept = has_oidc ? namesAt(root, 'auth.oidc.keep_groups.*') : [];
  const sources = has_oidc ? GROUP_SOURCES.flatMap((path) => namesAt(root, `auth.${path}`)) : [];
  const known = [...new Set([...sources, ...token_groups])].filter((name) => !name.includes('*'));
  const open =
    has_oidc && childOf(root, 'auth', 'known_groups') === undefined ? openNames('group', known, MAKE_KNOWN) : undefined;
  const problem = (name: string, message: string): NameProblem => {
    const where = has_oidc ? ' (if the identity provider has it, name it under `auth.known_groups`)' : '';
    return { code: 'W7200', message, help: `${oneOf(name, known, 'groups')}${where}` };
  };
  return {
    problemOf(name) {
      if (!token_groups.includes(name) && kept.length > 0 && !kept.some((glob) => matchesGlob(glob, name))) {
        const message = `the group ${quote(name)} has no effect: \`keep_groups\` drops it at sign-in`;
        return { code: 'W7050', message, help: 'add it, or a glob that matches it, to `auth.oidc.keep_groups`' };
      }
      if (known.includes(name)) return undefined;
      if (open !== undefined) return open.problemOf(name);
      return problem(name, `there is no group ${quote(name)}`);
    },
    problemOfGlob(glob) {
      if (open !== undefined || known.some((name) => matchesGlob(glob, name))) return undefined;
      return problem(glob, `no group matches ${quote(glob)}`);
    },
  };
}

function report({ text, mark }: Pick<Written, 'text' | 'mark'>, set: NameSet, findings: Findings): void {
  const problem = set.problemOf(text);
  if (problem === undefined) return;
  const { code, message, help } = problem;
  findings.report(code, mark, message, { help });
}

/** Checks groups outside of conditions. Those with a `*` were reported as globs. */
export function checkGroups(groups: readonly Written[], set: NameSet | undefined, findings: Findings): void {
  if (set === undefined) return;
  for (const group of groups) if (!group.text.includes('*')) report(group, set, findings);
}

/** Checks the groups of gateway.yaml outside of conditions. */
export function linkGroups(root: MapNode, groups: NameSet | undefined, findings: Findings): void {
  if (groups === undefined) return;
  const has_oidc = childOf(root, 'auth', 'oidc') !== undefined;
  for (const path of ['routing.rules.*.group', 'models.*.aliases.*.groups.*', ...(has_oidc ? GROUPS : [])])
    checkGroups(textsAt(root, path), groups, findings);
  const by_group = itemsAt(root, 'spend_limits.rules').flatMap((rule) =>
    entriesOf(childOf(rule, 'limit_usd_by_group')),
  );
  for (const { key, key_mark } of by_group)
    if (key.trim() !== '') report({ text: key, mark: key_mark }, groups, findings);
  if (has_oidc) checkSources(root, findings);
}

/** Reports groups that are almost a group of a more reliable list. */
function checkSources(root: MapNode, findings: Findings): void {
  const known: string[] = [];
  for (const path of GROUP_SOURCES) {
    const names = textsAt(root, `auth.${path}`).filter(({ text }) => !text.includes('*'));
    const reliable = openNames('group', [...known], MAKE_KNOWN);
    for (const name of names) report(name, reliable, findings);
    known.push(...names.map(({ text }) => text));
  }
}

const namesAt = (root: MapNode, path: string): readonly string[] => [
  ...new Set(textsAt(root, path).map(({ text }) => text)),
];

/** A closed set of names: any other name is a mistake. */
function listedNames(what: string, many: string, known: readonly string[], meant = new Map<string, string>()): NameSet {
  const help = (name: string) => meant.get(name) ?? oneOf(name, known, many);
  return {
    problemOf(name) {
      if (known.includes(name)) return undefined;
      return { code: 'W7202', message: `there is no ${what} ${quote(name)}`, help: help(name) };
    },
    problemOfGlob(glob) {
      if (known.some((name) => matchesGlob(glob, name))) return undefined;
      return { code: 'W7202', message: `no ${what} matches ${quote(glob)}`, help: help(glob) };
    },
  };
}

/** Conditions see model ids only: aliases are resolved before. */
function modelNames(root: MapNode, ids: readonly string[]): ReadonlyMap<string, NameSet> {
  const models = itemsAt(root, 'models');
  const aliases = new Map<string, string>();
  for (const model of models) {
    for (const alias of itemsAt(model, 'aliases')) {
      const name = textOf(alias) ?? textOf(childOf(alias, 'name'));
      const id = textOf(childOf(model, 'id')) ?? '';
      if (name === undefined || ids.includes(name)) continue;
      aliases.set(name, `it is an alias of ${id}: write that id, or compare { var: request.alias }`);
    }
  }
  const upstream_ids = models.flatMap((model) =>
    entriesOf(childOf(model, 'upstream_ids')).flatMap(({ value }) => textOf(value) ?? []),
  );
  const by_id = listedNames('model', 'models', ids, aliases);
  return new Map([
    ['request.model', by_id],
    ['request.other_models', by_id],
    ['request.alias', listedNames('alias', 'aliases', [...aliases.keys()])],
    ['model.family', listedNames('family', 'families', namesAt(root, 'models.*.family'))],
    ['route.upstream_model', listedNames('model of an upstream', 'models', [...new Set([...upstream_ids, ...ids])])],
  ]);
}

/** Names of teams or projects. An open set: access tokens may be made for any. */
function assignedNames(root: MapNode, what: 'team' | 'project'): NameSet {
  return openNames(what, namesAt(root, `auth.${what}s.*.name`), `If both exist, name them under \`auth.${what}s\``);
}

/** The values of facts that gateway.yaml defines; tolerates values that validation rejected. */
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
  if (ids !== undefined) for (const [path, set] of modelNames(root, ids)) known.set(path, set);
  if (upstreams !== undefined) {
    known.set('route.upstream', listedNames('upstream', 'upstreams', upstreams));
    known.set('route.candidates', listedNames('upstream', 'upstreams', upstreams));
    known.set('route.region', listedNames('upstream in the region', 'regions', namesAt(root, 'upstreams.*.region')));
  }
  const rules = itemsAt(root, 'routing.rules');
  const rule_names = rules.map((rule, index) => textOf(childOf(rule, 'name')) ?? `routing.rules[${index}]`);
  known.set('route.rule', listedNames('routing rule', 'routing rules', [...rule_names, 'default']));
  return known;
}
