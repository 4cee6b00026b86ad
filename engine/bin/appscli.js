#!/usr/bin/env node
// The launcher: finds a Node.js new enough for the program and runs it there. It must itself run on much older versions,
// so it stays plain JavaScript and imports nothing but built-ins.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import module from 'node:module';
import { constants, homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import v8 from 'node:v8';

const REQUIRED_MAJOR = 24;
const EXIT_CONFIGURATION = 78;
/** How often a gateway started by npm checks whether npm has stopped. */
const LOOK_MS = 500;

const here = dirname(fileURLToPath(import.meta.url));

function majorOf(version) {
  return Number(version.split('.')[0]);
}

/** The npm package "node" in a node_modules folder: its version, and its executable when that is really there. */
function inspectRuntime(folder) {
  try {
    const root = join(folder, 'node_modules', 'node');
    const version = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
    const file = join(root, 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
    // Without its install script the package contains a placeholder instead of the executable.
    const installed = existsSync(file) && statSync(file).size > 1000000;
    return { version, file: installed ? file : undefined };
  } catch {
    return undefined;
  }
}

/** Every "node" package from this folder up to the root, nearest first. */
function nearbyRuntimes() {
  const found = [];
  for (let folder = here; ; folder = dirname(folder)) {
    const runtime = inspectRuntime(folder);
    if (runtime !== undefined) found.push(runtime);
    if (folder === dirname(folder)) return found;
  }
}

// npm forwards SIGTERM and SIGINT only to its shell, and no other signals. A shell that runs only this command waits for it, so a
// changed parent id means that the shell was stopped. Processes get no event for that, so a timer polls the id.
function endWithShellOfNpm() {
  const { npm_lifecycle_script = '' } = process.env;
  if (process.platform === 'win32' || !/^(?:'appscli'|appscli)(?: [^&;|]*)?$/.test(npm_lifecycle_script)) return;
  const shell = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === shell) return;
    clearInterval(timer);
    process.kill(process.pid, 'SIGTERM');
  }, LOOK_MS);
  timer.unref();
}

/** Starts the program as a child: forwards signals to it, and exits the way it does. */
function runWith(file) {
  const args = [fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  // The channel carries no messages: it closes with this process, however that ends.
  const child = spawn(file, args, { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  const forward = (signal) => child.kill(signal);
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
  for (const signal of signals) process.on(signal, forward);
  endWithShellOfNpm();
  child.on('error', (error) => fail(`cannot run ${file} (${error.message})`, 'reinstall it: npm install node@24'));
  child.on('exit', (code, signal) => {
    for (const name of signals) process.removeListener(name, forward);
    if (signal === null) process.exit(code);
    // The first process of a container outlives a signal that nothing handles.
    process.exitCode = 128 + constants.signals[signal];
    process.kill(process.pid, signal);
  });
}

/** Stops this process when its launcher or npm's shell has died without a signal. */
function endWithParent() {
  if (process.channel === undefined) return endWithShellOfNpm();
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}

function fail(problem, remedy) {
  process.stderr.write(`appscli: ${problem}; ${remedy}\n`);
  process.exit(EXIT_CONFIGURATION);
}

// Compiling the program takes longer than most commands. The cache is in the user's own folder: others could tamper with a
// shared one.
function keepCompiledCode() {
  try {
    module.enableCompileCache(join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'appscli'));
  } catch {
    // The cache is optional.
  }
}

// In a quiet minute V8 frees memory and with it the shapes of objects that no request has just then, and all compiled code that
// relies on them: the next two thousand requests cost up to four times the CPU time. Another version may lack these flags, and V8
// would report that.
function keepOptimizedCode() {
  if (majorOf(process.versions.node) !== REQUIRED_MAJOR) return;
  v8.setFlagsFromString('--no-memory-reducer-favors-memory');
  v8.setFlagsFromString('--retain-maps-for-n-gc=1000');
}

function start() {
  if (majorOf(process.versions.node) >= REQUIRED_MAJOR) {
    keepCompiledCode();
    keepOptimizedCode();
    endWithParent();
    const source = new URL('./appscli.ts', import.meta.url);
    return import(existsSync(source) ? source.href : new URL('../../dist/engine/bin/appscli.js', import.meta.url).href);
  }
  const candidates = nearbyRuntimes().filter((runtime) => majorOf(runtime.version) >= REQUIRED_MAJOR);
  const usable = candidates.find((runtime) => runtime.file !== undefined);
  if (usable !== undefined) return runWith(usable.file);
  const problem = `this is Node.js ${process.versions.node}, but Node.js ${REQUIRED_MAJOR} or newer is needed`;
  if (candidates.length > 0) {
    return fail(
      `${problem}, and the npm package node@${candidates[0].version} is installed without its executable`,
      'run its install script: npm rebuild node (if scripts are blocked, first npm install-scripts approve node)',
    );
  }
  return fail(problem, 'run npm install node@24 in this project, or install Node.js 24');
}

start();
