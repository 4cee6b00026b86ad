import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { type ResolveFnOutput, registerHooks } from 'node:module';
import { basename, extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { FactPath } from '../../base/contract/facts.ts';
import type { FactSpec, StageFacts } from '../../base/contract/own-facts.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { runAsStage } from '../../base/kit/unhandled-errors.ts';
import { hideSecrets } from '../../base/source/diagnostics/secrets.ts';
import type { Findings } from '../../base/source/findings.ts';
import { type Mark, quote } from '../../base/source/node.ts';
import { definitionProblem } from './stage-definition.ts';

const ENGINE_URL = new URL('../..', import.meta.url).href;
const API_URL = new URL(`../../api${extname(import.meta.url)}`, import.meta.url).href;

/** Marks the URL of an operator's module, with a version of its text: Node caches modules by URL. */
const VERSION = '?appscli=';

interface Module {
  /** Hash of its text; `undefined` forces a new import. */
  digest: string | undefined;
  readonly version: number;
  readonly imports: Set<string>;
}

/** Timeout of a module's top-level code, in milliseconds. */
const IMPORT_TIMEOUT_MS = 10_000;

/** By real path. A change of a module's text, or of its imports, removes it. */
const modules = new Map<string, Module>();
let version = 1;
let hooked = false;

function digestOf(file: string): string {
  try {
    return createHash('sha256').update(readFileSync(file)).digest('base64');
  } catch {
    return 'unreadable';
  }
}

function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

function moduleOf(file: string): Module {
  const known = modules.get(file);
  if (known !== undefined) return known;
  // Hashed before Node reads the file, so that a change in between is noticed next time.
  const module: Module = { digest: digestOf(file), version, imports: new Set() };
  modules.set(file, module);
  return module;
}

function closureOf(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const imported of modules.get(file)?.imports ?? []) closureOf(imported, found);
  return found;
}

function forgetChanged(root: string): void {
  const known = [...closureOf(root)].filter((file) => modules.has(file));
  const stale = new Set(known.filter((file) => modules.get(file)?.digest !== digestOf(file)));
  if (stale.size === 0) return;
  version += 1;
  for (let grown = true; grown; ) {
    grown = false;
    for (const [file, { imports }] of modules) {
      if (stale.has(file) || ![...imports].some((imported) => stale.has(imported))) continue;
      stale.add(file);
      grown = true;
    }
  }
  for (const file of stale) modules.delete(file);
}

/** The path of an operator's module, `undefined` for any other URL. */
function ownFile(url: string | undefined): string | undefined {
  return url?.includes(VERSION) ? fileURLToPath(url) : undefined;
}

function isOwn(url: string): boolean {
  return url.startsWith('file:') && !url.includes('/node_modules/') && !url.startsWith(ENGINE_URL);
}

/** Treats operators' TypeScript as ES modules, whatever `type` the nearest package.json has. */
function asModule(resolved: ResolveFnOutput): ResolveFnOutput {
  const own = resolved.url.includes(VERSION) && /\.ts\?/.test(resolved.url);
  return own ? { ...resolved, format: 'module-typescript' } : resolved;
}

/**
 * Resolves `import ... from 'appscli'` to this running engine: a stage module needs no node_modules, and its StageError is
 * the engine's class. Adds versions to the URLs of the modules that an operator's module imports.
 */
function hookResolution(): void {
  if (hooked) return;
  hooked = true;
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === 'appscli') return { url: API_URL, shortCircuit: true };
      const parent = ownFile(context.parentURL);
      // CommonJS is cached by path, so a version has no effect.
      if (parent === undefined || context.conditions.includes('require')) return asModule(next(specifier, context));
      const importer = moduleOf(parent);
      try {
        const resolved = next(specifier, context);
        if (!isOwn(resolved.url)) return resolved;
        const file = fileURLToPath(resolved.url);
        importer.imports.add(file);
        return asModule({ ...resolved, url: pathToFileURL(file).href + VERSION + moduleOf(file).version });
      } catch (error) {
        // Once the file exists the import works, so it must be watched.
        if (/^\.{0,2}\//.test(specifier)) importer.imports.add(fileURLToPath(new URL(specifier, context.parentURL)));
        throw error;
      }
    },
  });
}

/** Settles as the import does, or rejects at the timeout, such as for a top-level await that never resolves. */
async function withTimeout<T>(importing: Promise<T>, timeout_ms: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const reject = () => late.reject(new Error(`its top-level code did not finish within ${timeout_ms / 1000} s`));
  const timer = setTimeout(reject, timeout_ms);
  try {
    return await Promise.race([importing, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Imports an operator's module, anew when its text or that of its imports has changed. CommonJS modules and packages in
 * node_modules keep their first version. Rejects with what the module throws, or at the timeout; the next call then imports
 * everything again.
 */
export async function importModule(
  file: string,
  timeout_ms = IMPORT_TIMEOUT_MS,
): Promise<{ readonly default?: unknown }> {
  hookResolution();
  const root = realPath(file);
  forgetChanged(root);
  try {
    const url = pathToFileURL(root).href + VERSION + moduleOf(root).version;
    // Attributes later errors of its background work to the stage, so that they do not end the process.
    const importing = runAsStage(basename(file), () => import(url));
    return await withTimeout(importing, timeout_ms);
  } catch (error) {
    for (const part of closureOf(root)) if (modules.has(part)) moduleOf(part).digest = undefined;
    throw error;
  }
}

/** The files of an operator's module and its known imports. */
export function filesOfModule(file: string): readonly string[] {
  return [...new Set([file, ...closureOf(realPath(file))])];
}

/** Timeout of `node --check` for one file, in milliseconds. */
const CHECK_MS = 5000;

const IN_MODULE = new RegExp(`(file://[^\\s()]+?)${VERSION.replace('?', '\\?')}\\d+:(\\d+)(?::(\\d+))?`);
const IN_FILE = /^(\/.+):(\d+)$/m;

/** The column from the line of carets that Node prints below the code. */
function marked(text: string): Pick<Mark, 'column' | 'length'> {
  const line = /^( *)(\^+)$/m.exec(text);
  return line === null ? { column: 1, length: 1 } : { column: line[1]!.length + 1, length: line[2]!.length };
}

function inStack(stack: string): Mark | undefined {
  const [, url, line, column] = IN_MODULE.exec(stack) ?? [];
  if (url === undefined) return undefined;
  const at = column === undefined ? marked(stack) : { column: Number(column), length: 1 };
  return { file: fileURLToPath(url), line: Number(line), ...at, pointer: '' };
}

/** The position of a syntax error. A failed import does not report it; `node --check` does. */
function inFile(file: string): Mark | undefined {
  const { stderr } = spawnSync(process.execPath, ['--check', file], { encoding: 'utf8', timeout: CHECK_MS });
  const [, checked, line] = IN_FILE.exec(stderr ?? '') ?? [];
  return checked === undefined ? undefined : { file: checked, line: Number(line), ...marked(stderr), pointer: '' };
}

function importOf({ message }: Error): Mark | undefined {
  const [, name = '', file = ''] = /^Cannot find (?:module|package) '(.+)' imported from (\/.+)$/.exec(message) ?? [];
  if (name === '' || !existsSync(file)) return undefined;
  const end = name.startsWith('/') ? basename(name) : name;
  const lines = readFileSync(file, 'utf8').split('\n');
  const line = lines.findIndex((text) => /\b(?:import|from)\b/.test(text) && text.includes(end));
  if (line < 0) return undefined;
  const column = lines[line]!.indexOf(end);
  return { file, line: line + 1, column: column + 1, length: end.length, pointer: '' };
}

/** The source position of an import error, if known. @param files absolute paths of the module and its imports */
function placeOfError(error: unknown, files: readonly string[]): Mark | undefined {
  if (!(error instanceof Error)) return undefined;
  const missing = importOf(error);
  if (missing !== undefined) return missing;
  const place = inStack(String(error.stack));
  if (place !== undefined || !(error instanceof SyntaxError)) return place;
  return files.map(inFile).find((found) => found !== undefined);
}

async function importStage(file: string, findings: Findings): Promise<StageDefinition | undefined> {
  let module: { default?: unknown };
  try {
    module = await importModule(file);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const place = placeOfError(error, filesOfModule(file));
    if (place !== undefined) findings.read(place.file, hideSecrets(readFileSync(place.file, 'utf8')));
    findings.report('C4012', place ?? { file }, 'the stage module does not load', {
      // The snippet shows the importing file.
      found: hideSecrets((message.split('\n')[0] ?? '').replace(/ imported from .+$/, '')),
    });
    return undefined;
  }
  const definition = module.default as StageDefinition | undefined;
  if (definition === undefined) {
    findings.report('C4013', { file }, 'the stage module has no default export', {
      help: 'add `export default defineStage({ ... })`',
    });
    return undefined;
  }
  const problem = definitionProblem(definition) ?? reservedProblem(definition);
  if (problem === undefined) return writingItsFacts(definition);
  findings.report('C4013', { file }, `invalid stage definition: ${problem}`, {
    help: 'correct it in `export default defineStage({ ... })`',
  });
  return undefined;
}

/** Adds the stage's own facts to its `writes`. */
function writingItsFacts(definition: StageDefinition): StageDefinition {
  const paths = [...factsOf(definition).keys()] as FactPath[];
  return paths.length === 0 ? definition : { ...definition, writes: [...definition.writes, ...paths] };
}

function factsOf({ name, facts = {} }: StageDefinition): StageFacts {
  return new Map(
    Object.entries(facts).map(([fact, { type, description, values }]): [string, FactSpec] => {
      const kind = type === 'integer' ? 'number' : type;
      return [`${name}.${fact}`, { kind, meaning: description, ...(values && { values }) }];
    }),
  );
}

/** Converters are reserved for shipped stages: a converter writes the client's stream. */
function reservedProblem({ needs }: StageDefinition): string | undefined {
  if (!needs.includes('convert-response')) return undefined;
  return '`needs`: "convert-response" is reserved for shipped stages; yours can observe a response and change its head';
}

/** The stages a configuration can name. */
export interface StageSet {
  readonly stages: ReadonlyMap<string, StageDefinition>;
  /** Whether every module is known and loaded; otherwise an unknown stage may be in one of them. */
  readonly complete: boolean;
  /** Absolute paths of operators' modules and their imports. */
  readonly files: readonly string[];
  readonly own: ReadonlySet<string>;
  readonly facts: StageFacts;
}

/** Adds operators' stages to the shipped ones, running their code. @param complete whether `files` has all of gateway.yaml's */
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
    // Missing files are reported in gateway.yaml.
    const stage = existsSync(file) ? await importStage(file, findings) : undefined;
    if (stage === undefined) {
      all_loaded = false;
    } else if (stages.has(stage.name)) {
      // Pipelines may use the name that it should have.
      all_loaded = false;
      const whose = shipped.some(({ name }) => name === stage.name) ? 'a shipped stage' : 'another of your stages';
      findings.report('C4005', { file }, `${quote(stage.name)} is already the name of ${whose}`, {
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
