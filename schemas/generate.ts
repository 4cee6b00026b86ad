/**
 * Writes `schemas/generated/` from the hand-written schemas and the definitions: `npm run generate`. With `--check` it
 * writes nothing and exits with 1 when a file is not what it would write.
 * @module
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { JsonSchema } from '../engine/api.ts';
import { withSecretFiles } from '../engine/base/source/validate.ts';
import { stages } from '../stages/index.ts';
import { definitionsOf, typeOfFile, typesOf, writeConsoleOperations } from './generate/console.ts';
import { editorSchemas, type Sources } from './generate/editor.ts';
import { printedExamples } from './generate/examples.ts';
import { diagnosticsPage, errorsPage, factsPage, indexPage, operatorsPage, stagesPage } from './generate/pages.ts';
import { gatewayPage, json, pipelinePage, policyPage } from './generate/schema.ts';
import { decisivePage, failoverPage, headersPage, telemetryPage, translationPage } from './generate/tables.ts';

const SCHEMAS = import.meta.dirname;
const GENERATED = join(SCHEMAS, 'generated');

const readSchema = (name: string) =>
  JSON.parse(readFileSync(join(SCHEMAS, `${name}.schema.json`), 'utf8')) as JsonSchema;

/** The text of every generated file, by its path below `schemas/generated/`. */
export async function generateFiles(): Promise<ReadonlyMap<string, string>> {
  const gateway = readSchema('gateway');
  const sources: Sources = {
    gateway: withSecretFiles(gateway),
    pipeline: readSchema('pipeline'),
    extension: readSchema('extension'),
    fragment: readSchema('fragment'),
    policy: readSchema('policy'),
    profile: readSchema('profile'),
    pipeline_test: readSchema('pipeline-test'),
  };
  const printed = await printedExamples(stages);
  return new Map([
    ...Object.entries(editorSchemas(sources, stages)).map(([name, schema]) => [name, json(schema)] as const),
    ['../../engine/base/contract/config-files.ts', typeOfFile('GatewayFile', gateway, './config-parts.ts')],
    [
      '../../engine/base/contract/config-parts.ts',
      typesOf([...definitionsOf([gateway]), ['Profile', sources.profile]]),
    ],
    ['reference/README.md', indexPage()],
    ['reference/gateway.md', gatewayPage(sources)],
    ['reference/pipeline.md', pipelinePage(sources)],
    ['reference/policy.md', policyPage(sources)],
    ['reference/stages.md', stagesPage(stages)],
    ['reference/facts.md', factsPage(stages)],
    ['reference/operators.md', operatorsPage()],
    ['reference/errors.md', errorsPage(stages)],
    ['reference/decisive-fields.md', decisivePage()],
    ['reference/failover.md', failoverPage()],
    ['reference/translation.md', translationPage()],
    ['reference/headers.md', headersPage()],
    ['reference/telemetry.md', telemetryPage()],
    ['reference/diagnostics.md', diagnosticsPage(printed)],
  ]);
}

function textAt(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** Paths of generated files that are missing, differ from what would be written, or should not be there. */
export function staleFiles(files: ReadonlyMap<string, string>): readonly string[] {
  const present = readdirSync(GENERATED, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(GENERATED, join(entry.parentPath, entry.name)));
  const changed = [...files].filter(([name, text]) => textAt(join(GENERATED, name)) !== text).map(([name]) => name);
  return [...changed, ...present.filter((name) => !files.has(name))].toSorted();
}

function write(files: ReadonlyMap<string, string>): void {
  rmSync(GENERATED, { recursive: true, force: true });
  for (const [name, text] of files) {
    mkdirSync(dirname(join(GENERATED, name)), { recursive: true });
    writeFileSync(join(GENERATED, name), text);
  }
}

async function main(): Promise<void> {
  const files = await generateFiles();
  mkdirSync(GENERATED, { recursive: true });
  const stale = staleFiles(files);
  if (process.argv.includes('--check')) {
    if (stale.length === 0) return;
    console.error(
      `Out of date in schemas/generated: ${stale.join(', ')}.\nRun npm run generate and commit the result.`,
    );
    process.exitCode = 1;
    return;
  }
  write(files);
  writeConsoleOperations();
  console.log(stale.length === 0 ? 'Nothing has changed.' : `Written: ${stale.join(', ')}.`);
}

if (import.meta.main) await main();
