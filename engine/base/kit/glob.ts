/** A function that tells whether a text matches `glob`, where `*` stands for any run of characters; all else is literal. */
export function compileGlob(glob: string): (text: string) => boolean {
  const [first = '', ...rest] = glob.split('*');
  const last = rest.pop();
  if (last === undefined) return (text) => text === glob;
  if (rest.length === 0 && last === '') return (text) => text.startsWith(first);
  // The leftmost place of each part leaves the most room for the next: no part is ever tried twice.
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
