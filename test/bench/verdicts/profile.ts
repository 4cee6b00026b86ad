/** Where the time of a CPU profile went. */

import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What V8's profiler writes, as far as it is read here. Times are microseconds. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string };
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** The time a function took by itself, without what it called. */
export interface SelfTime {
  readonly module: string;
  readonly name: string;
  readonly self_us: number;
}

const ROOT = resolve(import.meta.dirname, '../../..');
/** Waiting, and the taking of the profile itself. */
const NOT_WORK = new Set(['(idle)', '(root)']);
const PROFILER = 'node:inspector';

/** A module as people name it: a package, a built-in, or a file of ours below the top. */
function moduleOf(url: string): string {
  if (url === '') return '(native)';
  if (!url.startsWith('file:')) return url;
  const path = fileURLToPath(url);
  const [, dependency] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path) ?? [];
  if (dependency !== undefined) return dependency;
  return path.startsWith(`${ROOT}/`) ? path.slice(ROOT.length + 1) : path;
}

/** Self times by module and function, the longest first; time in which nothing was to be done is left out. */
export function selfTimes({ nodes, samples, timeDeltas }: CpuProfile): SelfTime[] {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const found = new Map<string, { module: string; name: string; self_us: number }>();
  for (const [at, id] of samples.entries()) {
    const { functionName, url } = frames.get(id)!;
    if (NOT_WORK.has(functionName) || url === PROFILER) continue;
    const module = moduleOf(url);
    const name = functionName === '' ? '(anonymous)' : functionName;
    const one = found.get(`${module} ${name}`) ?? { module, name, self_us: 0 };
    found.set(`${module} ${name}`, one);
    // The profiler notes how long after the sample before it each was taken: that time was this function's.
    one.self_us += timeDeltas[at]!;
  }
  return [...found.values()].sort((a, b) => b.self_us - a.self_us);
}

/** The first of them as a table, with their part of all work. */
export function renderProfile(times: readonly SelfTime[], most = 25): string {
  const total = times.reduce((sum, { self_us }) => sum + self_us, 0);
  const shown = times.slice(0, most);
  const widest = Math.max(...shown.map(({ module }) => module.length));
  return shown
    .map(({ module, name, self_us }) => {
      const part = ((100 * self_us) / total).toFixed(1).padStart(5);
      return `${part} %  ${(self_us / 1000).toFixed(0).padStart(6)} ms  ${module.padEnd(widest)}  ${name}`;
    })
    .join('\n');
}
