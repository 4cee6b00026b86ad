/** Reads `*.test.yaml` files: requests to a pipeline and what must become of them. */
import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { JsonSchema } from '../../engine/api.ts';
import type { Diagnostic } from '../../engine/diagnostics/diagnostic.ts';
import { FACTS } from '../../engine/facts.ts';
import { createFindings, type Findings } from '../../engine/load/findings.ts';
import { entriesOf, entryOf, itemsOf, type Node, nodeAt, textOf } from '../../engine/load/node.ts';
import { readSource } from '../../engine/load/source.ts';
import { validate } from '../../engine/load/validate.ts';
import { stages } from '../../stages/index.ts';

export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Headers by lower-case name; `null` where one must be absent. */
export type HeaderWishes = Readonly<Record<string, string | null>>;

/** What the schema in `schemas/pipeline-test.schema.json` describes in words. */
export interface PipelineCase {
  readonly name: string;
  readonly gateway?: JsonObject;
  readonly caller: {
    readonly credential: 'bearer' | 'x-api-key' | 'none' | 'wrong';
    readonly user?: string;
    readonly group: string;
    readonly team?: string;
    readonly project?: string;
  };
  readonly request: {
    readonly method: string;
    readonly path?: string;
    readonly headers?: HeaderWishes;
    readonly json?: Json;
    readonly text?: string;
    readonly leaves?: 'before_answer' | 'during_answer';
  };
  readonly upstream: {
    readonly status: number;
    readonly headers?: HeaderWishes;
    readonly json?: JsonObject;
    readonly text?: string;
    readonly events?: readonly ({ readonly type: string } & JsonObject)[];
    readonly fails?: 'hang' | 'reset' | 'refuse';
  };
  readonly expect: {
    readonly status?: number;
    readonly headers?: HeaderWishes;
    readonly json?: Json;
    readonly contains?: readonly string[];
    readonly lacks?: readonly string[];
    readonly unchanged?: true;
    readonly events?: readonly string[];
    readonly upstream?: {
      readonly path?: string;
      readonly headers?: HeaderWishes;
      readonly json?: JsonObject;
      readonly unchanged?: true;
    };
    readonly facts?: JsonObject;
    readonly runs?: readonly string[];
    readonly skips?: readonly string[];
    readonly ledger?: JsonObject;
    readonly audit?: JsonObject;
    readonly never?: readonly ('upstream_call' | 'ledger_row' | 'audit_record')[];
  };
}

/** A test file that can be run. */
export interface PipelineTest {
  readonly file: string;
  readonly pipeline: string;
  readonly gateway: JsonObject;
  readonly cases: readonly PipelineCase[];
  /** `file:line` of something in a case, by JSON pointer; of its nearest parent when it is not there. */
  place(case_index: number, pointer: string): string;
}

const SCHEMA = JSON.parse(
  readFileSync(new URL('../../schemas/pipeline-test.schema.json', import.meta.url), 'utf8'),
) as JsonSchema;

const STAGE_NAMES = new Set(stages.map((stage) => stage.name));

/** At most one of these may be present. */
const EXCLUSIVE = { request: ['json', 'text'], upstream: ['json', 'text', 'events'] } as const;

function child(node: Node | undefined, key: string): Node | undefined {
  return entryOf(node, key)?.value;
}

function checkExclusive(node: Node, findings: Findings): void {
  for (const [section, keys] of Object.entries(EXCLUSIVE)) {
    const present = keys.flatMap((key) => entryOf(child(node, section), key) ?? []);
    for (const { key, key_mark } of present.slice(1)) {
      findings.report('C4009', key_mark, `${section} has both "${present[0]!.key}" and "${key}"`, {
        help: 'leave one of them out: there is only one body',
      });
    }
  }
}

function checkNames(expect: Node | undefined, findings: Findings): void {
  for (const { key, key_mark } of entriesOf(child(expect, 'facts'))) {
    if (!Object.hasOwn(FACTS, key)) findings.report('C3001', key_mark, `there is no fact "${key}"`);
  }
  for (const key of ['runs', 'skips']) {
    for (const item of itemsOf(child(expect, key))) {
      const name = textOf(item);
      if (name === undefined || STAGE_NAMES.has(name)) continue;
      findings.report('C4001', item.mark, `there is no stage "${name}"`);
    }
  }
}

function checkLeaving(node: Node, findings: Findings): void {
  const leaves = entryOf(child(node, 'request'), 'leaves');
  if (leaves === undefined) return;
  const upstream = child(node, 'upstream');
  const goes_on = textOf(child(upstream, 'fails')) === 'hang';
  const has_events = child(upstream, 'events') !== undefined;
  const during = textOf(leaves.value) === 'during_answer';
  if (goes_on && has_events === during) return;
  findings.report('C4009', leaves.key_mark, 'the client cannot leave at this moment', {
    help: during
      ? 'let the upstream send events and then hang: upstream: { events: [...], fails: hang }'
      : 'let the upstream hang without an answer: upstream: { fails: hang }',
  });
}

function checkCases(root: Node, findings: Findings): void {
  const names = new Set<string>();
  for (const node of itemsOf(child(root, 'cases'))) {
    checkExclusive(node, findings);
    checkNames(child(node, 'expect'), findings);
    checkLeaving(node, findings);
    const name = child(node, 'name')!;
    const text = textOf(name) ?? '';
    if (names.has(text)) findings.report('C4005', name.mark, `two cases are called "${text}"`);
    names.add(text);
  }
}

/** A finding on one line. */
export function describeFinding({ file, line, column, message, expected, help }: Diagnostic): string {
  const more = [expected && `expected ${expected}`, help].filter((text) => text !== undefined);
  return [`${basename(file)}:${line ?? 1}:${column ?? 1}: ${message}`, ...more].join('; ');
}

/** Reads a test file. Throws an error that lists everything wrong with it, one line each with file, line and column. */
export function readPipelineTest(file: string): PipelineTest {
  const findings = createFindings();
  const root = readSource(file, findings);
  const validated = root && validate(SCHEMA, root, dirname(file), findings);
  if (root !== undefined && validated?.ok) {
    checkCases(root, findings);
    const name = child(root, 'pipeline')!;
    if (`${textOf(name)}.test.yaml` !== basename(file)) {
      findings.report('C4005', name.mark, `the tests of the pipeline "${textOf(name)}" are in another pipeline's file`);
    }
  }
  if (findings.errors() > 0) throw new Error(findings.diagnostics().map(describeFinding).join('\n'));
  const { pipeline, gateway = {}, cases } = validated!.value as Pick<PipelineTest, 'pipeline' | 'gateway' | 'cases'>;
  return {
    file,
    pipeline,
    gateway,
    cases,
    place: (index, pointer) => `${basename(file)}:${nodeAt(root!, `/cases/${index}${pointer}`).mark.line}`,
  };
}
