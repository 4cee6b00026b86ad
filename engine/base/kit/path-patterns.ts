const BELOW = '/*';

/** Whether a path of a pipeline is a pattern for all paths below it. */
export function isPathPattern(path: string): boolean {
  return path.endsWith(BELOW);
}

/** A segment `.` or `..` in any encoding: a server behind the gateway might serve another path than was authorised. */
const SLASH = '(?:[/\\\\]|%(?:25)*(?:2f|5c))';
/** The end of the path as a server may see it: a `#` or `?`, encoded or not. */
const END = '(?:$|[#?]|%(?:25)*(?:23|3f))';
const DOTS = new RegExp(`${SLASH}(?:\\.|%(?:25)*2e){1,2}(?:;[^/]*)?(?:${SLASH}|${END})`, 'i');

/**
 * Makes a lookup of the pipeline path for a request path: an exact match, else the longest pattern. `*` stands for one character or
 * more, slashes included, and cannot lead above the prefix.
 */
export function pathFinder(paths: Iterable<string>): (path: string) => string | undefined {
  const known = new Set(paths);
  const patterns = [...known].filter(isPathPattern).toSorted((a, b) => b.length - a.length);
  return (path) => {
    if (known.has(path)) return path;
    // Most gateways have one pattern, and most requests an exact path.
    const found = patterns.find((pattern) => path.length >= pattern.length && path.startsWith(pattern.slice(0, -1)));
    return found === undefined || DOTS.test(path) ? undefined : found;
  };
}
