/**
 * Writes `schemas/generated/` from the hand-written schemas and the definitions: `npm run generate`. With `--check` it
 * writes nothing and exits with 1 when a file is not what it would write.
 * @module
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { JsonSchema } from '../engine/api.ts';
import { PROTOCOLS, SERVED } from '../engine/base/contract/protocol.ts';
import { withSecretFiles } from '../engine/base/source/validate.ts';
import {
  DEFAULT_UPSTREAM_TYPE,
  spokenBy,
  UPSTREAM_TYPE_NAMES,
  UPSTREAM_TYPES,
} from '../engine/domain/upstreams/types/index.ts';
import { stages } from '../stages/index.ts';
import { definitionsOf, typeOfFile, typesOf, writeConsoleOperations } from './generate/console.ts';
import { editorSchemas, type Sources } from './generate/editor.ts';
import { diagnosticsPage, errorsPage, factsPage, indexPage, operatorsPage, stagesPage } from './generate/pages.ts';
import { PROTOCOL_LISTS } from './generate/protocols.ts';
import { gatewayPage, json, pipelinePage, policyPage } from './generate/schema.ts';
import { failoverPage, headersPage, privilegedPage, telemetryPage, translationPage } from './generate/tables.ts';
import { FILES_WITH_WINDOWS, windowsSql, withWindows } from './generate/windows.ts';

const SCHEMAS = import.meta.dirname;
const GENERATED = join(SCHEMAS, 'generated');
const PROTOCOLS_FOLDER = join(SCHEMAS, '../engine/domain/protocols');

const readSchema = (name: string) =>
  JSON.parse(readFileSync(join(SCHEMAS, `${name}.schema.json`), 'utf8')) as JsonSchema;

const TYPE_KEY = /("description": "Type of the upstream\.)[^"]*(",\s*"enum": )\[[^\]]*\](,\s*"default": )"[^"]*"/;
const PROTOCOLS_KEY = /("description": "Protocols the upstream speaks,[^"]*"[^[\]]*"items": \{\s*"enum": )\[[^\]]*\]/;

/** gateway.schema.json with the types of upstreams, and the protocols that they offer, as their table has them. */
function withUpstreamTypes(text: string): string {
  const types = Object.values(UPSTREAM_TYPES);
  const about = UPSTREAM_TYPE_NAMES.map((name) => ` ${name}: ${spokenBy(name)}.`).join('');
  const offered = PROTOCOLS.filter((name) => types.some((type) => type.selectable_protocols.includes(name)));
  for (const key of [TYPE_KEY, PROTOCOLS_KEY])
    if (!key.test(text)) throw new Error(`gateway.schema.json has nothing like ${key}`);
  return text
    .replace(TYPE_KEY, `$1${about}$2${listOf(UPSTREAM_TYPE_NAMES)}$3"${DEFAULT_UPSTREAM_TYPE}"`)
    .replace(PROTOCOLS_KEY, `$1${listOf(offered)}`);
}

/** pipeline.schema.json with the protocols that a pipeline can serve. */
function withProtocols(text: string): string {
  const key = /("enum": )\["messages", [^\]]*\]/g;
  if (!key.test(text)) throw new Error(`pipeline.schema.json has nothing like ${key}`);
  return text.replace(key, `$1${listOf(SERVED)}`);
}

const listOf = (values: readonly string[]) => `[${values.map((value) => JSON.stringify(value)).join(', ')}]`;

/** The text of every generated file, by its path below `schemas/generated/`. */
export function generateFiles(): ReadonlyMap<string, string> {
  const gateway_text = withUpstreamTypes(readFileSync(join(SCHEMAS, 'gateway.schema.json'), 'utf8'));
  const gateway = JSON.parse(gateway_text) as JsonSchema;
  const pipeline_text = withProtocols(readFileSync(join(SCHEMAS, 'pipeline.schema.json'), 'utf8'));
  const sources: Sources = {
    gateway: withSecretFiles(gateway),
    pipeline: JSON.parse(pipeline_text) as JsonSchema,
    extension: readSchema('extension'),
    fragment: readSchema('fragment'),
    policy: readSchema('policy'),
    profile: readSchema('profile'),
    pipeline_test: readSchema('pipeline-test'),
  };
  return new Map([
    ...Object.entries(editorSchemas(sources, stages)).map(([name, schema]) => [name, json(schema)] as const),
    ['../pipeline.schema.json', pipeline_text],
    ...FILES_WITH_WINDOWS.map((name) => {
      const text = name === 'gateway.schema.json' ? gateway_text : textAt(join(SCHEMAS, name))!;
      return [`../${name}`, withWindows(name, text)] as const;
    }),
    ...[...PROTOCOL_LISTS].map(([name, text]) => [`../../engine/domain/protocols/${name}`, text] as const),
    ['../../engine/base/store/schema/windows.sql', windowsSql()],
    ['../../engine/base/contract/config-files.ts', typeOfFile('GatewayFile', gateway, './config-parts.ts')],
    [
      '../../engine/base/contract/config-parts.ts',
      typesOf([...definitionsOf([gateway, sources.profile]), ['Profile', sources.profile]]),
    ],
    ['reference/README.md', indexPage()],
    ['reference/gateway.md', gatewayPage(sources)],
    ['reference/pipeline.md', pipelinePage(sources)],
    ['reference/policy.md', policyPage(sources)],
    ['reference/stages.md', stagesPage(stages)],
    ['reference/facts.md', factsPage(stages)],
    ['reference/operators.md', operatorsPage()],
    ['reference/errors.md', errorsPage(stages)],
    ['reference/privileged-fields.md', privilegedPage()],
    ['reference/failover.md', failoverPage()],
    ['reference/translation.md', translationPage()],
    ['reference/headers.md', headersPage()],
    ['reference/telemetry.md', telemetryPage()],
    ['reference/diagnostics.md', diagnosticsPage()],
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

/** Lists of the folders of protocols that are out of date, so that this process has loaded other ones. */
function staleLists(): readonly string[] {
  return [...PROTOCOL_LISTS]
    .filter(([name, text]) => textAt(join(PROTOCOLS_FOLDER, name)) !== text)
    .map(([name]) => name);
}

const AGAIN = '--again';

/** Generates again, in a process that loads the files that this one has written. */
function generateAgain(written: readonly string[]): void {
  console.log(`Written: ${written.join(', ')}.`);
  process.exitCode = spawnSync(process.execPath, [import.meta.filename, AGAIN], { stdio: 'inherit' }).status ?? 1;
}

function complain(stale: readonly string[]): void {
  console.error(`Out of date in schemas/generated: ${stale.join(', ')}.\nRun npm run generate and commit the result.`);
  process.exitCode = 1;
}

function main(): void {
  const is_check = process.argv.includes('--check');
  const lists = staleLists();
  if (lists.length > 0) {
    if (is_check) complain(lists);
    else {
      for (const name of lists) writeFileSync(join(PROTOCOLS_FOLDER, name), PROTOCOL_LISTS.get(name)!);
      generateAgain(lists);
    }
    return;
  }
  const files = generateFiles();
  mkdirSync(GENERATED, { recursive: true });
  const stale = staleFiles(files);
  if (is_check) {
    if (stale.length > 0) complain(stale);
    return;
  }
  write(files);
  if (FILES_WITH_WINDOWS.some((name) => stale.includes(`../${name}`))) {
    // The rest comes from these schemas, which this process read before.
    generateAgain(stale);
    return;
  }
  writeConsoleOperations();
  if (stale.length > 0) console.log(`Written: ${stale.join(', ')}.`);
  else if (!process.argv.includes(AGAIN)) console.log('Nothing has changed.');
}

if (import.meta.main) main();
