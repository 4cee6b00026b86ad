/** Compiles a glob into a test; `*` stands for any run of characters, all else is literal. */
export function compileGlob(glob: string): (text: string) => boolean {
  const [first = '', ...rest] = glob.split('*');
  const last = rest.pop();
  if (last === undefined) return (text) => text === glob;
  if (rest.length === 0 && last === '') return (text) => text.startsWith(first);
  // The leftmost match of each part is best for the next one, so no backtracking is needed.
  return (text) => {
    if (!text.startsWith(first)) return false;
    let at = first.length;
    for (const part of rest) {
      const found = text.indexOf(part, at);
      if (found < 0) return false;
      at = found + part.length;
    }
    return text.length - last.length >= at && text.endsWith(last);
  };
}

/** Whether `text` matches `glob`; see `compileGlob`, which is faster for a glob that is used often. */
export function matchesGlob(glob: string, text: string): boolean {
  return compileGlob(glob)(text);
}
