import { printable, printableLine, printableStyled } from '../../base/kit/text/printable.ts';

/**
 * Where a command writes: data to standard output, information to standard error. What a terminal would act upon is taken out of
 * both on the way, but for colours of our own; what fits on a line or into JSON is for those who put it there.
 */
export interface Terminal {
  /** Data: what a program may read. */
  data(text: string): void;
  /** Data that a program takes to the letter, such as the contents of a file. */
  verbatim(text: string): void;
  info(text: string): void;
  /** Writes over the line that was written last; an empty text takes it away. */
  rewrite(line: string): void;
  /** From now on a reader of standard output that goes away doesn't end the process. */
  outliveReader(): void;
  /** Columns for sentences on standard output: COLUMNS where it is set, else the width of the terminal, else 80. */
  readonly columns: number;
  /** The same for tables; without end when no terminal is there, so that each row of a table is one line for a program. */
  readonly table_columns: number;
  /** Address of the gateway that this program was downloaded from; absent where it was installed. */
  readonly gateway?: string;
  /** Whether a person reads standard error at a terminal. */
  readonly interactive: boolean;
  readonly data_color: boolean;
  readonly info_color: boolean;
}

const DEFAULT_COLUMNS = 80;

/** The process's own streams. A reader of standard output that goes away, such as `head`, ends the process quietly. */
export function processTerminal(env: NodeJS.ProcessEnv): Terminal {
  let outlive = false;
  const colorful = (env.NO_COLOR ?? '') === '' && env.TERM !== 'dumb';
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (outlive) return;
    if (error.code === 'EPIPE') process.exit(0);
    process.exitCode = 1;
    process.stderr.write(`appscli: standard output cannot be written: ${error.message}\n`, () => process.exit());
  });
  process.stderr.on('error', () => {});
  // A terminal that does not know its width says that it is 0.
  const own_columns = process.stdout.columns === 0 ? undefined : process.stdout.columns;
  const columns = /^[1-9]\d{0,3}$/.test(env.COLUMNS ?? '') ? Number(env.COLUMNS) : own_columns;
  const data_color = colorful && process.stdout.isTTY === true;
  const info_color = colorful && process.stderr.isTTY === true;
  const shown = (text: string, color: boolean) => (color ? printableStyled(text) : printable(text));
  return {
    data: (text) => void process.stdout.write(shown(text, data_color)),
    verbatim: (text) => void process.stdout.write(text),
    info: (text) => void process.stderr.write(shown(text, info_color)),
    rewrite: (line) => void process.stderr.write(`\r${printableLine(line)}\x1b[K`),
    outliveReader() {
      outlive = true;
    },
    columns: columns ?? DEFAULT_COLUMNS,
    table_columns: columns ?? Number.POSITIVE_INFINITY,
    interactive: process.stderr.isTTY === true,
    data_color,
    info_color,
  };
}
