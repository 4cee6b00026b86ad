import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { type ResolveFnOutput, registerHooks } from 'node:module';
import { basename, extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { FactPath } from '../../base/contract/facts.ts';
import type { FactSpec, StageFacts } from '../../base/contract/own-facts.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { runAsStage } from '../../base/kit/strays.ts';
import { hideSecrets } from '../../base/source/diagnostics/secrets.ts';
import type { Findings } from '../../base/source/findings.ts';
import { type Mark, quote } from '../../base/source/node.ts';
import { definitionProblem, NOT_DEFINED } from './stage-definition.ts';

const ENGINE_URL = new URL('../..', import.meta.url).href;
const API_URL = new URL(`../../api${extname(import.meta.url)}`, import.meta.url).href;

/** Marks the URL of an operator's module and says which reading of its file it is; Node keeps modules by URL. */
const READING = '?appscli=';

/** A file of the operator's code as it was imported last. */
interface Module {
  /** Of its text; `undefined` when it has to be imported again whatever the text is. */
  digest: string | undefined;
  readonly reading: number;
  readonly imports: Set<string>;
}

/** Longest a module's own code may take to run when it is imported, in milliseconds. */
const PATIENCE_MS = 10_000;

/** By real path. Those whose text has changed, or that of something below them, are taken out. */
const modules = new Map<string, Module>();
let reading = 1;
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
  // Taken before Node reads the file, so that a change in between is seen next time.
  const module: Module = { digest: digestOf(file), reading, imports: new Set() };
  modules.set(file, module);
  return module;
}

/** A file and everything it imports, as far as that is known. */
function closureOf(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const imported of modules.get(file)?.imports ?? []) closureOf(imported, found);
  return found;
}

/** Forgets the modules whose text has changed and those that import them, all of which must then be imported anew. */
function forgetChanged(root: string): void {
  const known = [...closureOf(root)].filter((file) => modules.has(file));
  const stale = new Set(known.filter((file) => modules.get(file)?.digest !== digestOf(file)));
  if (stale.size === 0) return;
  reading += 1;
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
  return url?.includes(READING) ? fileURLToPath(url) : undefined;
}

function isOwn(url: string): boolean {
  return url.startsWith('file:') && !url.includes('/node_modules/') && !url.startsWith(ENGINE_URL);
}

/** TypeScript of the operator's is an ES module, whatever the nearest package.json was made to say about other files. */
function asModule(resolved: ResolveFnOutput): ResolveFnOutput {
  const own = resolved.url.includes(READING) && /\.ts\?/.test(resolved.url);
  return own ? { ...resolved, format: 'module-typescript' } : resolved;
}

/**
 * Makes `import ... from 'appscli'` mean this running engine, so that a stage module needs no node_modules and its
 * StageError is the engine's own class; and gives what an operator's module imports a URL with a reading, too.
 */
function hookResolution(): void {
  if (hooked) return;
  hooked = true;
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier === 'appscli') return { url: API_URL, shortCircuit: true };
      const parent = ownFile(context.parentURL);
      // CommonJS is kept by path, whatever the URL says.
      if (parent === undefined || context.conditions.includes('require')) return asModule(next(specifier, context));
      const importer = moduleOf(parent);
      try {
        const resolved = next(specifier, context);
        if (!isOwn(resolved.url)) return resolved;
        const file = fileURLToPath(resolved.url);
        importer.imports.add(file);
        return asModule({ ...resolved, url: pathToFileURL(file).href + READING + moduleOf(file).reading });
      } catch (error) {
        // The import works once the file is there, so it is one of those to look at.
        if (/^\.{0,2}\//.test(specifier)) importer.imports.add(fileURLToPath(new URL(specifier, context.parentURL)));
        throw error;
      }
    },
  });
}

/** Settles as the import does, or rejects when its code is still waiting for something by then. */
async function withinPatience<T>(importing: Promise<T>, patience_ms: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const reject = () => late.reject(new Error(`its code still had not run to the end after ${patience_ms / 1000} s`));
  const timer = setTimeout(reject, patience_ms);
  try {
    return await Promise.race([importing, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Imports an operator's module: again when its text or that of a module it imports has changed since, otherwise the one
 * already there. CommonJS modules and packages in node_modules stay as they were first read. Rejects with whatever the
 * module throws, or when it takes too long, and then tries all of it again next time.
 */
export async function importModule(file: string, patience_ms = PATIENCE_MS): Promise<{ readonly default?: unknown }> {
  hookResolution();
  const root = realPath(file);
  forgetChanged(root);
  try {
    const url = pathToFileURL(root).href + READING + moduleOf(root).reading;
    // What its code leaves running is the stage's, and its failure later no reason to stop.
    const importing = runAsStage(basename(file), () => import(url));
    return await withinPatience(importing, patience_ms);
  } catch (error) {
    for (const part of closureOf(root)) if (modules.has(part)) moduleOf(part).digest = undefined;
    throw error;
  }
}

/** The file of an operator's module and of everything of the operator's that it imports, as far as that is known. */
export function filesOfModule(file: string): readonly string[] {
  return [...new Set([file, ...closureOf(realPath(file))])];
}

// Where a stage module of the operator's broke when it was loaded.

/** Longest that looking for a mistake in one file may take, in milliseconds. */
const CHECK_MS = 5000;

const IN_MODULE = new RegExp(`(file://[^\\s()]+?)${READING.replace('?', '\\?')}\\d+:(\\d+)(?::(\\d+))?`);
const IN_FILE = /^(\/.+):(\d+)$/m;

/** Node marks the mistake on a line of its own, below the code. */
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

/** An import that fails does not tell where JavaScript is broken; Node's own check of a file does. */
function inFile(file: string): Mark | undefined {
  const { stderr } = spawnSync(process.execPath, ['--check', file], { encoding: 'utf8', timeout: CHECK_MS });
  const [, checked, line] = IN_FILE.exec(stderr ?? '') ?? [];
  return checked === undefined ? undefined : { file: checked, line: Number(line), ...marked(stderr), pointer: '' };
}

/** Where a module is imported that is not there. */
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

/**
 * The place that an error of importing a module is about; `undefined` when nothing tells it.
 * @param files the module and what it imports, absolute.
 */
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
