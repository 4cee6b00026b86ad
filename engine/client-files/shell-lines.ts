/** Shells that lines can be written for. */
export const SHELLS = ['sh', 'fish', 'powershell'] as const;

/** A shell that lines can be written for. */
export type Shell = (typeof SHELLS)[number];

/** The shell of the person at this machine, as far as it can be told. */
export function shellOf(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): Shell {
  if (/(?:^|\/)fish$/.test(env.SHELL ?? '')) return 'fish';
  return platform === 'win32' || /(?:^|\/)pwsh$/.test(env.SHELL ?? '') ? 'powershell' : 'sh';
}

interface Dialect {
  quote(text: string): string;
  /** A line that gives a variable a value, written as the shell writes values. */
  assign(name: string, value: string): string;
  /** The value of another variable. */
  reading(name: string): string;
}

const DIALECTS: Readonly<Record<Shell, Dialect>> = {
  sh: {
    quote: (text) => `'${text.replaceAll("'", "'\\''")}'`,
    assign: (name, value) => `export ${name}=${value}`,
    reading: (name) => `"$${name}"`,
  },
  fish: {
    quote: (text) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`,
    assign: (name, value) => `set -gx ${name} ${value}`,
    reading: (name) => `"$${name}"`,
  },
  powershell: {
    quote: (text) => `'${text.replaceAll("'", "''")}'`,
    assign: (name, value) => `$env:${name} = ${value}`,
    reading: (name) => `$env:${name}`,
  },
};

/** Lines that set variables: some to texts, some to the value that another variable has. */
export function shellLines(
  shell: Shell,
  {
    texts,
    copies,
  }: { readonly texts: Readonly<Record<string, string>>; readonly copies: Readonly<Record<string, string>> },
): string[] {
  const { quote, assign, reading } = DIALECTS[shell];
  return [
    ...Object.entries(texts).map(([name, text]) => assign(name, quote(text))),
    ...Object.entries(copies).map(([name, from]) => assign(name, reading(from))),
  ];
}
