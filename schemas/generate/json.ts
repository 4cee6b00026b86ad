const WIDTH = 120;

/** @param used how much of its line is taken before and after it. */
function write(value: unknown, indent: string, used: number): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const list = Array.isArray(value);
  const name = (key: string) => (list ? '' : `${JSON.stringify(key)}: `);
  const join = (text: (item: unknown, key: string) => string) =>
    Object.entries(value).map(([key, item]) => `${name(key)}${text(item, key)}`);
  const flat = join((item) => write(item, '', Number.NEGATIVE_INFINITY)).join(', ');
  const one_line = list || flat === '' ? flat : ` ${flat} `;
  const [open, close] = list ? '[]' : '{}';
  if (one_line.length + 2 + used <= WIDTH) return `${open}${one_line}${close}`;
  const inner = `${indent}  `;
  const lines = join((item, key) => write(item, inner, inner.length + name(key).length + 1));
  return `${open}\n${inner}${lines.join(`,\n${inner}`)}\n${indent}${close}`;
}

/** JSON in which everything that fits on a line of 120 characters stands on one. */
export function json(value: unknown): string {
  return `${write(value, '', 0)}\n`;
}
