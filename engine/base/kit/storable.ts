/** Whether PostgreSQL can store a text unchanged. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/** A text with the characters replaced that PostgreSQL cannot store. */
export function storable(text: string): string {
  return isStorable(text) ? text : text.toWellFormed().replaceAll('\0', '\ufffd');
}

/** JSON that PostgreSQL accepts as jsonb. A NUL or lone surrogate in one row would fail the whole batch. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value);
  // Both are written as escapes, which are rare: a fast search avoids the slow one.
  if (!json.includes('\\u') || !/\\u(?:0000|d[89a-f])/.test(json)) return json;
  return JSON.stringify(value, (_, part) => (typeof part === 'string' ? storable(part) : part));
}
