/** Where a command writes: data to standard output, words to standard error. */
export interface Terminal {
  /** Data: what a program may read. */
  data(text: string): void;
  /** Words for a person. */
  words(text: string): void;
  /** From now on a reader of standard output that goes away doesn't end the process. */
  outliveReader(): void;
  /** Width of standard output in columns; 80 when it is not a terminal. */
  readonly columns: number;
  /** Whether a person watches standard error. */
  readonly words_watched: boolean;
  /** Whether standard output takes colours. */
  readonly data_color: boolean;
  /** Whether standard error takes colours. */
  readonly words_color: boolean;
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
  return {
    data: (text) => void process.stdout.write(text),
    words: (text) => void process.stderr.write(text),
    outliveReader() {
      outlive = true;
    },
    columns: process.stdout.columns ?? DEFAULT_COLUMNS,
    words_watched: process.stderr.isTTY === true,
    data_color: colorful && process.stdout.isTTY === true,
    words_color: colorful && process.stderr.isTTY === true,
  };
}
