/** Wraps a text between words into lines of at most `width` characters; a longer word gets its own line. */
export function wrapText(text: string, width: number, first_indent = '', indent = first_indent): string[] {
  const lines: string[] = [];
  let line = first_indent;
  let empty = true;
  for (const word of text.split(' ')) {
    if (!empty && line.length + 1 + word.length > width) {
      lines.push(line);
      line = indent + word;
    } else {
      line = empty ? line + word : `${line} ${word}`;
    }
    empty = false;
  }
  return [...lines, line];
}
