import { existsSync, readFileSync } from 'node:fs';
import type { FactPath } from '../contract/facts.ts';
import type { FactSpec, StageFacts } from '../contract/own-facts.ts';
import type { StageDefinition } from '../contract/stage.ts';
import { quote } from '../source/describe.ts';
import { hideSecrets } from '../source/diagnostics/secrets.ts';
import type { Findings } from '../source/findings.ts';
import { definitionProblem, NOT_DEFINED } from './stage-definition.ts';
import { placeOfError } from './stage-error.ts';
import { filesOfModule, importModule } from './stage-modules.ts';

async function importStage(file: string, findings: Findings): Promise<StageDefinition | undefined> {
  let module: { default?: unknown };
  try {
    module = await importModule(file);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const place = placeOfError(error, filesOfModule(file));
    if (place !== undefined) findings.read(place.file, hideSecrets(readFileSync(place.file, 'utf8')));
    findings.report('C4012', place ?? { file }, 'the stage module does not load', {
      // Where it is imported is shown.
      found: hideSecrets((message.split('\n')[0] ?? '').replace(/ imported from .+$/, '')),
    });
    return undefined;
  }
  if (module.default === undefined) {
    findings.report('C4013', { file }, 'the stage module has no default export', {
      expected: 'export default defineStage({ ... })',
    });
    return undefined;
  }
  const problem = definitionProblem(module.default) ?? reservedProblem(module.default as StageDefinition);
  if (problem === undefined) return writingItsFacts(module.default as StageDefinition);
  const is_defined = problem !== NOT_DEFINED;
  findings.report('C4013', { file }, `the stage module does not define a stage: ${problem}`, {
    expected: is_defined ? undefined : 'export default defineStage({ ... })',
    help: is_defined ? 'correct it in the call of `defineStage`' : undefined,
  });
  return undefined;
}

/** A stage that says of its own facts, too, that it writes them. */
function writingItsFacts(definition: StageDefinition): StageDefinition {
  const paths = [...factsOf(definition).keys()] as FactPath[];
  return paths.length === 0 ? definition : { ...definition, writes: [...definition.writes, ...paths] };
}

/** The facts of a stage's own, by path. */
function factsOf({ name, facts = {} }: StageDefinition): StageFacts {
  return new Map(
    Object.entries(facts).map(([fact, { type, description, values }]): [string, FactSpec] => {
      const kind = type === 'integer' ? 'number' : type;
      return [`${name}.${fact}`, { kind, meaning: description, ...(values && { values }) }];
    }),
  );
}

/** What only shipped stages may do: the engine trusts a converter with the stream itself. */
function reservedProblem({ needs }: StageDefinition): string | undefined {
  if (!needs.includes('convert-response')) return undefined;
  return '`needs`: "convert-response" is for stages that ship with the gateway; yours can observe a response and change its head';
}

/** The stages a configuration can name. */
export interface StageSet {
  readonly stages: ReadonlyMap<string, StageDefinition>;
  /** Whether every module is known and loaded; otherwise a name that is missing may be one of theirs. */
  readonly complete: boolean;
  /** Absolute paths of their modules and of what these import. */
  readonly files: readonly string[];
  /** Names of the operator's own. */
  readonly own: ReadonlySet<string>;
  /** What these find out. */
  readonly facts: StageFacts;
}

/**
 * Loads the operator's stage modules and adds their stages to the shipped ones. This runs the modules' code.
 * @param complete whether `files` are all that gateway.yaml means to name.
 */
export async function loadStages(
  shipped: readonly StageDefinition[],
  files: readonly string[],
  findings: Findings,
  complete = true,
): Promise<StageSet> {
  const stages = new Map(shipped.map((stage) => [stage.name, stage]));
  const own = new Set<string>();
  let all_loaded = complete;
  for (const file of files) {
    // A file that is missing was reported where gateway.yaml names it.
    const stage = existsSync(file) ? await importStage(file, findings) : undefined;
    if (stage === undefined) {
      all_loaded = false;
    } else if (stages.has(stage.name)) {
      // It was meant to have a name that pipelines may use.
      all_loaded = false;
      const whose = shipped.some(({ name }) => name === stage.name) ? 'a shipped stage' : 'another of your stages';
      findings.report('C4014', { file }, `${quote(stage.name)} is already the name of ${whose}`, {
        help: 'give your stage another name',
      });
    } else {
      stages.set(stage.name, stage);
      own.add(stage.name);
    }
  }
  const facts = new Map([...own].flatMap((name) => [...factsOf(stages.get(name)!)]));
  return { stages, complete: all_loaded, files: files.flatMap(filesOfModule), own, facts };
}
