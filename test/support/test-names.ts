/** Finds the names of tests in the source of a test file, without running it. */

/** Stands for what a name is made of at run time. */
export const HOLE = '…';

const CALL = /^( *)(?:await )?(?:test|it|describe)\(\s*/gm;

/** The name that begins at `start`, with holes for what is computed. */
function nameAt(source: string, start: number): string {
  const quote = source[start]!;
  if (!`'"\``.includes(quote)) return HOLE;
  let text = '';
  for (let i = start + 1; source[i] !== quote; i++) {
    if (source[i] === '\\') text += source[++i];
    else if (quote === '`' && source.startsWith('${', i)) {
      text += HOLE;
      for (let depth = 0; ; i++) {
        if (source[i] === '{') depth++;
        if (source[i] === '}' && --depth === 0) break;
      }
    } else text += source[i];
  }
  return text;
}

/** Names of all tests of a file, each behind the groups it is in: `group > test`. The source is laid out by the formatter. */
export function testNames(source: string): string[] {
  const names: string[] = [];
  const groups: { readonly indent: number; readonly name: string }[] = [];
  for (const match of source.matchAll(CALL)) {
    const indent = match[1]!.length;
    const name = nameAt(source, match.index + match[0].length);
    while (groups.length > 0 && groups.at(-1)!.indent >= indent) groups.pop();
    if (match[0].trimStart().startsWith('describe')) groups.push({ indent, name });
    else names.push([...groups.map((group) => group.name), name].join(' > '));
  }
  return names;
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Whether a text is a string, a key or a number of the source. */
function isValue(source: string, text: string): boolean {
  return new RegExp(/^\w+$/.test(text) ? `\\b${text}\\b` : `(['"])${escaped(text)}\\1`).test(source);
}

/**
 * Whether a test of this name is in the source. What stands where the name of the test has a hole must be the hole itself,
 * or a value of the source.
 */
export function hasTest(source: string, name: string): boolean {
  return testNames(source).some((found) => {
    const holes = new RegExp(`^${found.split(HOLE).map(escaped).join('(.+)')}$`, 's').exec(name)?.slice(1);
    return holes?.every((text) => text === HOLE || isValue(source, text)) ?? false;
  });
}
