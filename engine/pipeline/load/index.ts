import { resolve } from 'node:path';
import { MACHINE_KEYS } from '../../base/contract/machine-keys.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { createFindings, type Findings } from '../../base/source/findings.ts';
import { childOf, isWritten, type MapNode, nodeAt, replaceNode, scalarsAt } from '../../base/source/node.ts';
import { readSource } from '../../base/source/source.ts';
import { type Loaded, positionOf } from '../../base/source/spec.ts';
import { checkGateway, validateGateway } from './gateway.ts';
import { lintGateway, lintTranslation } from './lints.ts';
import { compileOtherRequests, loadPipelines, SHIPPED_PIPELINES } from './pipelines.ts';
import { loadPolicies } from './policies.ts';
import { loadStages } from './stage-modules.ts';

export interface LoadOptions {
  readonly stages: readonly StageDefinition[];
  readonly env: NodeJS.ProcessEnv;
  /** `required`: environment variables and files named in the configuration must exist. `ignored`: warn only. */
  readonly environment: 'required' | 'ignored';
  /** Directory of the shipped pipelines; those of this package by default. */
  readonly shipped_pipelines?: string;
  /** `host:port` in place of `server.listen`. */
  readonly listen?: string | undefined;
  /** For tests: replaces `readSource` for gateway.yaml. */
  readonly read?: (file: string, findings: Findings) => MapNode | undefined;
}

/** A gateway.yaml with its pipelines, policies and stages. */
export type LoadedGateway = NonNullable<Awaited<ReturnType<typeof loadInto>>>;

/** Compiles gateway.yaml with its pipelines, and reports to `findings`; `undefined` when it cannot be read at all. */
export async function loadInto(file: string, options: LoadOptions, findings: Findings) {
  const { env, environment, shipped_pipelines: shipped = SHIPPED_PIPELINES } = options;
  const written = (options.read ?? readSource)(file, findings);
  if (written === undefined) return undefined;
  const listen = childOf(written, 'server', 'listen');
  const root =
    options.listen === undefined || listen?.kind !== 'scalar'
      ? written
      : replaceNode(written, listen, { ...listen, value: options.listen });
  const valid = validateGateway(root, file, findings);
  // Conditions of gateway.yaml may read the facts of operators' stages.
  const stages = await loadStages(options.stages, valid.modules, findings, valid.knows_modules);
  const gateway = checkGateway(valid, { env, environment, findings }, stages);
  const { config, names, pipelines, conditions: shared_conditions } = gateway;
  if (config !== undefined) lintGateway(config, root, findings);
  const all_pipelines = childOf(root, 'all_pipelines');
  const context = { env, environment, findings, stages, config, names, shipped, all_pipelines, shared_conditions };
  const compiled = loadPipelines(pipelines, context);
  const other_requests = compileOtherRequests({ ...context, own: pipelines });
  // Only now, because pipelines also use the rules.
  if (config !== undefined) shared_conditions.reportUnused();
  if (config !== undefined) lintTranslation(config, compiled, root, findings);
  const policies = loadPolicies(gateway.policy_source, config, findings);
  return { ...gateway, root, compiled, other_requests, policies, stages };
}

/** Compiles gateway.yaml with its pipelines; runs operators' stage modules. Mistakes in files are in `diagnostics`, not thrown. */
export async function load(given_file: string, options: LoadOptions): Promise<Loaded> {
  const file = resolve(given_file);
  const findings = createFindings();
  const gateway = await loadInto(file, options, findings);
  const more_files = gateway === undefined ? [] : [...gateway.named_files, ...gateway.stages.files];
  return Object.freeze({
    config: gateway?.config,
    pipelines: Object.freeze(gateway?.compiled ?? []),
    other_requests: gateway?.other_requests,
    policies: gateway?.policies ?? [],
    diagnostics: findings.diagnostics(),
    files: [...new Set([file, ...findings.files(), ...more_files])],
    secret_files: findings.secret_files(),
    pipelines_directory: gateway?.pipelines,
    policies_directory: gateway?.policy_source?.directory,
    positionOf: (pointer: string) =>
      gateway && isWritten(gateway.root, pointer) ? positionOf(nodeAt(gateway.root, pointer).mark) : undefined,
    sources: findings.sources(),
    of_machine: MACHINE_KEYS.flatMap((keys) => scalarsAt(gateway?.root, keys)).flatMap(({ mark, value }) => {
      return typeof value === 'string' ? { mark, value } : [];
    }),
  });
}
