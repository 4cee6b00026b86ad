/** What ends a path of a pipeline that stands for everything below it. */
const BELOW = '/*';

/** Whether a path of a pipeline stands for everything below it. */
export function isPathPattern(path: string): boolean {
  return path.endsWith(BELOW);
}

/**
 * A segment `.` or `..`, however it and the slashes around it are written: a server behind the gateway may resolve it, and
 * would serve a path other than the one this gateway has decided over.
 */
const SLASH = '(?:[/\\\\]|%(?:25)*(?:2f|5c))';
/** Where a server may see the end of the path: a `#` or `?`, decoded or not. */
const END = '(?:$|[#?]|%(?:25)*(?:23|3f))';
const DOTS = new RegExp(`${SLASH}(?:\\.|%(?:25)*2e){1,2}(?:;[^/]*)?(?:${SLASH}|${END})`, 'i');

/**
 * Makes the function that finds which of these paths of pipelines serves a request's path: the same one, else the longest
 * pattern above it. What `*` stands for is at least one character, may hold slashes, and leads to no place above it.
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
