/** Guards whose outcome follows from what a pipeline serves. */
import { isPathPattern } from '../../kit/path-patterns.ts';
import { simplify } from '../../rules/simplify.ts';
import type { PipelineSpec } from '../../source/spec.ts';

/** Most combinations of method and path that a guard is tried with. */
const COMBINATIONS_MAX = 64;

/** Whether a guard holds for every request of a pipeline, or for none; `undefined` when that depends on the request. */
export function constantGuard(when: unknown, match: PipelineSpec['match']): boolean | undefined {
  if (match.methods.length * match.paths.length > COMBINATIONS_MAX) return undefined;
  const known = match.methods.flatMap((method) =>
    match.paths.map(
      (path) =>
        new Map<string, unknown>([
          ['request.method', method],
          ...(isDecided(path, when) ? [['request.path', path] as const] : []),
          ['request.protocol', match.protocol],
        ]),
    ),
  );
  const [outcome, ...others] = new Set(known.map((facts) => simplify(when, facts)));
  return others.length === 0 && typeof outcome === 'boolean' ? outcome : undefined;
}

/** A pattern stands for paths about which a guard may well decide, unless it names other paths only. */
function isDecided(path: string, when: unknown): boolean {
  if (!isPathPattern(path)) return true;
  const text = JSON.stringify(when);
  return !text.includes('"glob"') && !text.includes(JSON.stringify(path.replace(/\*$/, '')).slice(0, -1));
}
