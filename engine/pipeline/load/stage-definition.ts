import { ERRORS } from '../../base/contract/errors.ts';
import { ENGINE_FACTS, FACTS } from '../../base/contract/facts.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { didYouMean } from '../../base/kit/text/suggest.ts';
import { schemaProblem } from '../../base/source/validate.ts';

const CAPABILITIES = [
  'raw-body',
  'rewrite-body',
  'convert-response',
  'rewrite-response',
  'respond',
  'network',
  'database',
];

/** Whether a string is a valid name of a stage, a pipeline or a policy: lower-case words joined by dashes. */
export function isName(text: string): boolean {
  return /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(text);
}

type Loose = Record<string, unknown>;

function badList(value: unknown, known: readonly string[]): string | undefined {
  if (!Array.isArray(value)) return 'it is not a list';
  const stranger = value.find((item) => !known.includes(item as string));
  if (stranger === undefined) return undefined;
  const help = didYouMean(String(stranger), known);
  return `there is no "${String(stranger)}"${help === undefined ? '' : `; ${help}`}`;
}

/** Secrets are hidden because of the suffix of the key, and checked because of the keyword: an option needs both. */
function secretProblem({ properties, items }: Loose): string | undefined {
  for (const [key, schema] of Object.entries((properties ?? {}) as Record<string, Loose>)) {
    if (key.endsWith('_env') !== (schema['x-secret'] !== undefined)) {
      return `an option that names the variable of a secret must end in _env and have "x-secret"; "${key}" has only one of the two`;
    }
    const inside = secretProblem(schema);
    if (inside !== undefined) return inside;
  }
  return typeof items === 'object' && items !== null ? secretProblem(items as Loose) : undefined;
}

function optionsProblem(options: unknown): string | undefined {
  if (typeof options !== 'object' || options === null) return '`options` is not a JSON Schema';
  const { type, additionalProperties, properties } = options as Loose;
  if (type !== 'object' || additionalProperties !== false) {
    return '`options` must be closed: { type: "object", additionalProperties: false, properties: {...} }';
  }
  for (const [key, schema] of Object.entries((properties ?? {}) as Record<string, Loose>)) {
    if (typeof schema.description !== 'string') return `the option "${key}" has no description`;
  }
  const secret = secretProblem(options as Loose);
  if (secret !== undefined) return secret;
  const problem = schemaProblem(options as StageDefinition['options']);
  return problem === undefined ? undefined : `\`options\` is not a valid JSON Schema: ${problem}`;
}

const NOT_DEFINED = 'it is not made with `defineStage`';

/** The problem of a stage definition; `undefined` without one. */
export function definitionProblem(value: unknown): string | undefined {
  if (value === undefined) return 'it has no default export';
  if (typeof value !== 'object' || value === null) return NOT_DEFINED;
  const stage = value as Loose;
  const { name, version, summary, create, check, place, terminal, timeout_seconds } = stage;
  if (typeof create !== 'function' || !('readsIfSet' in stage)) return NOT_DEFINED;
  if (typeof name !== 'string' || !isName(name)) {
    return '`name` must be lower-case words joined by dashes';
  }
  if (!Number.isInteger(version)) return '`version` must be a whole number';
  if (typeof summary !== 'string' || summary === '') return '`summary` must be a sentence';
  if (check !== undefined && typeof check !== 'function') return '`check` must be a function';
  if (place !== 'stages' && place !== 'finally') return '`place` must be stages or finally';
  if (timeout_seconds !== undefined && !((timeout_seconds as number) > 0 && (timeout_seconds as number) <= 3600)) {
    return '`timeout_seconds` must be more than 0 and at most 3600';
  }
  if (place === 'finally' && terminal === true) return 'a stage for `finally` cannot be terminal';
  const facts = Object.keys(FACTS);
  const isOfEngine = (path: unknown) => (ENGINE_FACTS as readonly unknown[]).includes(path);
  const taken = Array.isArray(stage.writes) ? stage.writes.find(isOfEngine) : undefined;
  if (taken !== undefined) return `\`writes\`: only the engine writes "${taken}"; remove "${taken}" from the list`;
  const writable = facts.filter((path) => !isOfEngine(path));
  const lists = { reads: facts, readsIfSet: facts, writes: writable, raises: Object.keys(ERRORS), needs: CAPABILITIES };
  for (const [key, known] of Object.entries(lists)) {
    const problem = badList(stage[key], known);
    if (problem === undefined) continue;
    return `\`${key}\`: ${problem}`;
  }
  if (terminal === true && !(stage.needs as string[]).includes('respond') && (stage.raises as string[]).length === 0) {
    return '`terminal` is true, but it can neither respond (`needs: [respond]`) nor reject (`raises`)';
  }
  return factsProblem(name, stage.facts) ?? optionsProblem(stage.options);
}

const FACT_TYPES = ['integer', 'number', 'boolean', 'string'];
const SECTIONS: ReadonlySet<string> = new Set(Object.keys(FACTS).map((path) => path.split('.')[0]!));

function factsProblem(stage: string, facts: unknown): string | undefined {
  if (facts === undefined) return undefined;
  if (typeof facts !== 'object' || facts === null || Array.isArray(facts)) return '`facts` is not a mapping';
  if (SECTIONS.has(stage))
    return `the facts of a stage begin with its name, and "${stage}" is a section of the gateway's facts`;
  for (const [name, fact] of Object.entries(facts as Record<string, Loose | null>)) {
    if (!/^[a-z][a-z0-9_]*$/.test(name)) return `\`facts\`: "${name}" must be lower-case words joined by underscores`;
    const { type, description, values } = fact ?? {};
    if (!FACT_TYPES.includes(type as string))
      return `\`facts\`: the type of "${name}" must be one of ${FACT_TYPES.join(', ')}`;
    if (typeof description !== 'string' || description === '') return `\`facts\`: "${name}" has no description`;
    const are_texts = Array.isArray(values) && values.length > 0 && values.every((value) => typeof value === 'string');
    if (type === 'string' && !are_texts) return `\`facts\`: "${name}" is a string and needs a list of \`values\``;
  }
  return undefined;
}
