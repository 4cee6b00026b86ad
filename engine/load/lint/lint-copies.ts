/** Warns about pipelines that have drifted apart: copies of shipped ones, and guards that only some clients meet. */
import { dirname } from 'node:path';
import { quote } from '../../source/describe.ts';
import { filesIn } from '../../source/find-files.ts';
import { createFindings, type Findings } from '../../source/findings.ts';
import { childOf, itemsOf, textOf } from '../../source/node.ts';
import { readSource } from '../../source/read-source.ts';
import type { PipelineSpec, StageEntry } from '../../source/spec.ts';
import { type PipelineSource, splitPipelines } from '../compose/split.ts';

interface Compiled {
  readonly source: PipelineSource;
  readonly spec: PipelineSpec;
}

/** What a guard goes by that is another in each API. */
const TELLS_APIS = /"request\.(?:protocol|path|method)"/;
/** The pipelines of one model through several APIs. */
const FAMILY = 'model-requests';

/** @param shipped directory of the shipped pipelines. */
export function lintCopies(all: readonly Compiled[], shipped: string, findings: Findings): void {
  const copies = all.filter(({ source: { file, extended } }) => dirname(file) !== shipped && extended !== true);
  const stages_of = copies.length === 0 ? new Map<string, readonly string[]>() : shippedStages(shipped);
  for (const copy of copies) lintCopy(copy, stages_of, findings);
  lintGuards(all, shipped, findings);
}

/** The stages of the shipped pipelines, by their names. */
function shippedStages(shipped: string): ReadonlyMap<string, readonly string[]> {
  const ignored = createFindings();
  const sources = filesIn(shipped).flatMap((file) => {
    const root = readSource(file, ignored);
    return root === undefined ? [] : splitPipelines(file, root, ignored);
  });
  return new Map(
    sources.map(({ name = '', root }) => {
      const lists = ['stages', 'finally'].flatMap((list) => itemsOf(childOf(root, list)));
      return [name, lists.flatMap((item) => textOf(childOf(item, 'stage')) ?? [])];
    }),
  );
}

function lintCopy(
  { source, spec }: Compiled,
  stages_of: ReadonlyMap<string, readonly string[]>,
  findings: Findings,
): void {
  const own = new Set([...spec.stages, ...spec.finally].map(({ definition }) => definition.name));
  const missing = (stages_of.get(spec.name) ?? []).filter((stage) => !own.has(stage));
  const name = childOf(source.root, 'pipeline');
  if (missing.length === 0 || name === undefined) return;
  findings.report(
    'W7100',
    name.mark,
    `this copy of ${quote(spec.name)} lacks what the shipped one has: ${missing.join(', ')}`,
    {
      help: `write what is different only: extends: ${spec.name}, with insert, replace and remove`,
    },
  );
}

/** Whether an entry refuses some requests. */
const refuses = ({ definition, when, mode }: StageEntry): boolean =>
  definition.terminal && when !== undefined && mode === 'enforce' && !definition.needs.includes('network');

function lintGuards(all: readonly Compiled[], shipped: string, findings: Findings): void {
  const serving = all.filter(({ source }) => source.family === FAMILY).map(({ spec }) => spec);
  for (const spec of serving) {
    for (const entry of spec.stages) {
      const logic = JSON.stringify(entry.when);
      if (!refuses(entry) || dirname(entry.position.file) === shipped || TELLS_APIS.test(logic)) continue;
      const same = (other: StageEntry) =>
        other.definition === entry.definition &&
        JSON.stringify([other.when, other.options]) === JSON.stringify([entry.when, entry.options]);
      const open = serving.filter(({ stages }) => !stages.some(same)).map(({ name }) => name);
      if (open.length === 0) continue;
      const chain = entry.chain && { chain: entry.chain };
      const mark = { ...entry.position, ...chain, length: entry.definition.name.length, pointer: '' };
      findings.report('W7101', mark, `${quote(entry.id)} refuses requests in ${quote(spec.name)} only`, {
        found: `who asks through ${open.join(' or ')} passes`,
        help: 'put it under `everywhere: { insert: [...] }` in gateway.yaml, or into a file with `extends: model-requests`',
      });
    }
  }
}
