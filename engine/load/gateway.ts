import { dirname } from 'node:path';
import type { GatewayConfig } from '../config.ts';
import { createConditionChecker } from '../rules/check.ts';
import { type AnnotationContext, checkAnnotations, isModule, type KnownNames } from './annotations.ts';
import { shapeConfig } from './config-shape.ts';
import { linkGateway } from './link-gateway.ts';
import { childOf, itemsOf, type MapNode, textOf } from './node.ts';
import { GATEWAY_SCHEMA } from './schemas.ts';
import { validate } from './validate.ts';

/** gateway.yaml after its passes. */
export interface CheckedGateway {
  /** Absent when the file has errors. */
  readonly config: GatewayConfig | undefined;
  /** Absolute paths of stage modules, also when something else is wrong. */
  readonly modules: readonly string[];
  /** Absolute path of the operator's pipelines, also when something else is wrong. */
  readonly pipelines: string | undefined;
  /** What stage options may refer to. */
  readonly names: KnownNames;
}

/** The names in a section; `undefined` when it is missing or a name is, so that references to it cannot be judged. */
function namesOf(root: MapNode, section: string, key: string): readonly string[] | undefined {
  const items = itemsOf(childOf(root, section));
  const names = items.flatMap((item) => textOf(childOf(item, key)) ?? []);
  return names.length > 0 && names.length === items.length ? names : undefined;
}

/** Validates and links gateway.yaml. */
export function checkGateway(
  root: MapNode,
  file: string,
  options: Pick<AnnotationContext, 'env' | 'environment' | 'findings'>,
): CheckedGateway {
  const { findings } = options;
  const before = findings.errors();
  const validated = validate(GATEWAY_SCHEMA, root, dirname(file), findings);
  const names: KnownNames = {
    upstream: namesOf(root, 'upstreams', 'name'),
    model: namesOf(root, 'models', 'id'),
    'token-group': childOf(root, 'token_groups') === undefined ? ['all'] : namesOf(root, 'token_groups', 'name'),
  };
  const conditions = createConditionChecker(undefined, findings);
  checkAnnotations(root, validated, { ...options, names, conditions });
  linkGateway(root, names, findings);
  const value = validated.value as { pipelines?: unknown; stages?: unknown };
  const modules = validated.annotations.filter(({ kind, parameter }) => kind === 'x-path' && parameter === 'module');
  return {
    config: findings.errors() === before ? shapeConfig(validated.value, dirname(file)) : undefined,
    modules: modules.map((annotation) => String(annotation.value)).filter(isModule),
    names,
    pipelines: typeof value.pipelines === 'string' ? value.pipelines : undefined,
  };
}
