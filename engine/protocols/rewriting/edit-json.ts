/** Keys and indexes that lead to a value. */
export type Path = readonly (string | number)[];

/** What is put in the place of a value, as JSON text; `undefined` where it stays. */
export type Edit = (json: string) => string | undefined;

/** Index behind the string that begins at `open`. */
function stringEnd(json: string, open: number): number {
  for (let from = open + 1; ; ) {
    const quote = json.indexOf('"', from);
    let slashes = 0;
    while (json[quote - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return quote + 1;
    from = quote + 1;
  }
}

const DELIMITER = /[\s[\]{},:]/g;

/** Index behind the value that begins at `start`. */
function valueEnd(json: string, start: number): number {
  const first = json[start];
  if (first === '"') return stringEnd(json, start);
  if (first !== '{' && first !== '[') {
    DELIMITER.lastIndex = start;
    return DELIMITER.exec(json)?.index ?? json.length;
  }
  let depth = 0;
  for (let i = start; ; ) {
    const char = json[i];
    if (char === '"') {
      i = stringEnd(json, i);
      continue;
    }
    if (char === '{' || char === '[') depth++;
    if (char === '}' || char === ']') depth--;
    i++;
    if (depth === 0) return i;
  }
}

/**
 * Puts other values in the place of some in a JSON text that is without fault, and leaves every other character.
 * @param visit asked for each value, with the path to it and its first character; where it returns an edit, what is inside the
 * value is not asked for. The path changes later.
 */
export function editJson(json: string, visit: (path: Path, first: string) => Edit | undefined): string {
  const path: (string | number)[] = [];
  let is_key = false;
  let out = '';
  let copied = 0;
  for (let i = 0; i < json.length; ) {
    const char = json[i]!;
    if (/[\s:]/.test(char)) i++;
    else if (char === ',') {
      const last = path.at(-1);
      is_key = typeof last === 'string';
      if (!is_key) path[path.length - 1] = (last as number) + 1;
      i++;
    } else if (char === '}' || char === ']') {
      path.pop();
      is_key = false;
      i++;
    } else if (is_key) {
      const end = stringEnd(json, i);
      path[path.length - 1] = JSON.parse(json.slice(i, end)) as string;
      is_key = false;
      i = end;
    } else {
      const edit = visit(path, char);
      if (edit === undefined && (char === '{' || char === '[')) {
        path.push(char === '{' ? '' : 0);
        is_key = char === '{';
        i++;
        continue;
      }
      const end = valueEnd(json, i);
      const edited = edit?.(json.slice(i, end));
      if (edited !== undefined) {
        out += json.slice(copied, i) + edited;
        copied = end;
      }
      i = end;
    }
  }
  return copied === 0 ? json : out + json.slice(copied);
}
