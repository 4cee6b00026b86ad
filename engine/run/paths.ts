/** What ends a path of a pipeline that stands for everything below it. */
const BELOW = '/*';

/** Whether a path of a pipeline stands for everything below it. */
export function isPathPattern(path: string): boolean {
  return path.endsWith(BELOW);
}

/**
 * Makes the function that finds which of these paths of pipelines serves a request's path: the same one, else the longest
 * pattern above it. What `*` stands for is at least one character and may hold slashes.
 */
export function pathFinder(paths: Iterable<string>): (path: string) => string | undefined {
  const known = new Set(paths);
  const patterns = [...known].filter(isPathPattern).toSorted((a, b) => b.length - a.length);
  return (path) => {
    if (known.has(path)) return path;
    // Most gateways have one pattern, and most requests an exact path.
    return patterns.find((pattern) => path.length >= pattern.length && path.startsWith(pattern.slice(0, -1)));
  };
}
