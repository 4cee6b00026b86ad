import { createHash } from 'node:crypto';
import { readFileSync, realpathSync } from 'node:fs';
import { type ResolveFnOutput, registerHooks } from 'node:module';
import { basename, extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { containExits, runAsStage } from '../kit/strays.ts';

const ENGINE_URL = new URL('..', import.meta.url).href;
const API_URL = new URL(`../api${extname(import.meta.url)}`, import.meta.url).href;

/** Marks the URL of an operator's module and says which reading of its file it is; Node keeps modules by URL. */
export const READING = '?appscli=';

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
  containExits();
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
