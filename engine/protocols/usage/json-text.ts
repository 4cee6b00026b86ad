const QUOTE = '"';
const BACKSLASH = 92;

/** Length of a text inside JSON, as it is spelt there, from the character behind its opening quote. */
export function jsonTextLength(json: string, start: number): number {
  let end = json.indexOf(QUOTE, start);
  while (end >= 0 && isEscaped(json, start, end)) end = json.indexOf(QUOTE, end + 1);
  return (end < 0 ? json.length : end) - start;
}

function isEscaped(json: string, start: number, at: number): boolean {
  let backslashes = 0;
  while (at - backslashes > start && json.charCodeAt(at - backslashes - 1) === BACKSLASH) backslashes++;
  return backslashes % 2 === 1;
}
