/** Supported shells. */
export const SHELLS = ['sh', 'fish', 'powershell'] as const;

/** A supported shell. */
export type Shell = (typeof SHELLS)[number];

/** The user's shell, by the environment. */
export function shellOf(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): Shell {
  if (/(?:^|\/)fish$/.test(env.SHELL ?? '')) return 'fish';
  return platform === 'win32' || /(?:^|\/)pwsh$/.test(env.SHELL ?? '') ? 'powershell' : 'sh';
}

interface Dialect {
  quote(text: string): string;
  assign(name: string, value: string): string;
  reading(name: string): string;
  readonly joint: string;
}

const DIALECTS: Readonly<Record<Shell, Dialect>> = {
  sh: {
    quote: (text) => `'${text.replaceAll("'", "'\\''")}'`,
    assign: (name, value) => `export ${name}=${value}`,
    reading: (name) => `"$${name}"`,
    joint: '',
  },
  fish: {
    quote: (text) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`,
    assign: (name, value) => `set -gx ${name} ${value}`,
    reading: (name) => `"$${name}"`,
    joint: '',
  },
  powershell: {
    quote: (text) => `'${text.replaceAll("'", "''")}'`,
    assign: (name, value) => `$env:${name} = ${value}`,
    reading: (name) => `$env:${name}`,
    joint: ' + ',
  },
};

/** Lines that set variables: to texts, to other variables, or to a text followed by another variable. */
export function shellLines(
  shell: Shell,
  {
    texts,
    copies,
    prefixed = {},
  }: {
    readonly texts: Readonly<Record<string, string>>;
    readonly copies: Readonly<Record<string, string>>;
    readonly prefixed?: Readonly<Record<string, { readonly text: string; readonly variable: string }>>;
  },
): string[] {
  const { quote, assign, reading, joint } = DIALECTS[shell];
  return [
    ...Object.entries(texts).map(([name, text]) => assign(name, quote(text))),
    ...Object.entries(copies).map(([name, from]) => assign(name, reading(from))),
    ...Object.entries(prefixed).map(([name, { text, variable }]) =>
      assign(name, `${quote(text)}${joint}${reading(variable)}`),
    ),
  ];
}
