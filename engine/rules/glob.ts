/** Whether `text` matches `glob`, where `*` stands for any run of characters; everything else is literal. */
export function matchesGlob(glob: string, text: string): boolean {
  if (!glob.includes('*')) return glob === text;
  const [first = '', ...rest] = glob.split('*');
  if (!text.startsWith(first)) return false;
  let at = first.length;
  const last = rest.pop() ?? '';
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
