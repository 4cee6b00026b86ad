import { dirname } from 'node:path';
import { NO_STAGE_FACTS } from '../../base/contract/own-facts.ts';
import { createConditionChecker } from '../../base/rules/check.ts';
import type { Findings } from '../../base/source/findings.ts';
import { childOf, itemsOf, type MapNode, textOf } from '../../base/source/node.ts';
import { GATEWAY_SCHEMA } from '../../base/source/schemas.ts';
import { type Validated, validate } from '../../base/source/validate.ts';
import { type AnnotationContext, allowWarnings, checkAnnotations, isModule, type KnownNames } from './annotations.ts';
import { shapeConfig } from './config-shape.ts';
import { factNames, linkGroups } from './link/known-names.ts';
import { checkProxies, checkRoutes, linkGateway } from './link/link-gateway.ts';
import { textsAt } from './link/link-keys.ts';
import { checkPrices } from './link/link-money.ts';
import { policySource } from './policies.ts';
import { loadProfiles } from './profile.ts';
import type { StageSet } from './stage-modules.ts';

/** The names in a section; `undefined` when names are missing or repeated, so that references cannot be checked. */
function namesOf(root: MapNode, section: string, key: string): readonly string[] | undefined {
  const items = itemsOf(childOf(root, section));
  const names = items.flatMap((item) => textOf(childOf(item, key)) ?? []);
  const complete = names.length > 0 && names.length === items.length;
  return complete && new Set(names).size === names.length ? names : undefined;
}

const pathsOf = ({ annotations }: Validated, what: string): readonly string[] =>
  annotations
    .filter(({ kind, parameter }) => kind === 'x-path' && parameter === what)
    .map(({ value }) => String(value));

/** Validates gateway.yaml by its schema, and finds the absolute paths of its stage modules, also after errors. */
export function validateGateway(source: MapNode, file: string, findings: Findings) {
  const validated = validate(GATEWAY_SCHEMA, source, dirname(file), findings);
  const root = validated.node as MapNode;
  const modules = pathsOf(validated, 'module').filter(isModule);
  const named = childOf(root, 'stages');
  return {
    file,
    root,
    validated,
    // A repeated module is reported elsewhere; loaded twice, its stage would seem to be a duplicate.
    modules: [...new Set(modules)],
    knows_modules: named === undefined || (named.kind === 'list' && named.items.length === modules.length),
  };
}

const NO_STAGES = { facts: NO_STAGE_FACTS, complete: true };

/** Checks gateway.yaml beyond its schema, and shapes the configuration, which is absent after errors. */
export function checkGateway(
  { file, root, validated }: ReturnType<typeof validateGateway>,
  options: Pick<AnnotationContext, 'env' | 'environment' | 'findings'>,
  stages: Pick<StageSet, 'facts' | 'complete'> = NO_STAGES,
) {
  const { findings } = options;
  const before = findings.errors();
  const names: KnownNames = {
    upstream: namesOf(root, 'upstreams', 'name'),
    model: namesOf(root, 'models', 'id'),
    'token-group': childOf(root, 'token_groups') === undefined ? ['all'] : namesOf(root, 'token_groups', 'name'),
  };
  const fact_names = factNames(root, names);
  const headers = textsAt(root, 'facts.headers.*').map(({ text }) => text.toLowerCase());
  const conditions = createConditionChecker(childOf(root, 'rules'), findings, undefined, {
    headers,
    of_stages: stages.facts,
    knows_stages: stages.complete,
    names: fact_names,
  });
  // The checker visits named rules itself, each once.
  const annotations = validated.annotations.filter(({ pointer }) => !pointer.startsWith('/rules/'));
  checkAnnotations(root, { ...validated, annotations }, { ...options, names, conditions });
  linkGateway(root, names, findings);
  checkProxies(root, { ...options, directory: dirname(file) });
  linkGroups(root, fact_names.get('principal.groups'), findings);
  allowWarnings(root, findings);
  const profiles = loadProfiles(root, file, options);
  const config =
    validated.ok && findings.errors() === before
      ? shapeConfig(validated.value, { root, directory: dirname(file), profiles, env: options.env })
      : undefined;
  if (config !== undefined) checkPrices(config, root, findings);
  if (config !== undefined) checkRoutes(config, root, findings);
  const value = validated.value as { pipelines?: unknown };
  return {
    config: findings.errors() === before ? config : undefined,
    named_files: [...pathsOf(validated, 'file'), ...profiles.files],
    names,
    conditions,
    pipelines: typeof value.pipelines === 'string' ? value.pipelines : undefined,
    policy_source: policySource(root, value, fact_names.get('principal.groups')),
  };
}
