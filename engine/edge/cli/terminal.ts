import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { clientPackageUrl } from '../../base/contract/client-package.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { printable, printableLine, printableLines, printableStyled } from '../../base/kit/text/printable.ts';

type From = Pick<Terminal, 'gateway'>;

const COMMAND = /(?<![\w./-])appscli(?=\s+(?:login|logout|token|whoami|usage|models|client|doctor)\b)/g;

const EXAMPLE = 'https://gateway.example.com';

/** How to run this program: `appscli`, or npx with the address of the gateway that served it. */
export function programName({ gateway }: From): string {
  return gateway === undefined ? 'appscli' : `npx --yes ${clientPackageUrl(gateway)}`;
}

/** Makes the commands in a help text, hint or error ready to paste on this machine. Not for content of files. */
export function hint(terminal: From, text: string): string {
  const { gateway } = terminal;
  if (gateway === undefined) return text;
  const named = text.replace(COMMAND, () => programName(terminal)).replaceAll(EXAMPLE, () => gateway);
  // The gateway that served the program is its default.
  return named.replace(/ --base-url (\S+?)(?=[\s"'`),;]|$)/gm, (option, address) =>
    address === gateway ? '' : option,
  );
}

export function warner(terminal: Terminal): (message: string) => void {
  return (message) => terminal.info(printableLines([`appscli: ${hint(terminal, message)}`]));
}

/** Data to standard output, information to standard error; both without control characters except own colours. */
export interface Terminal {
  data(text: string): void;
  verbatim(text: string): void;
  info(text: string): void;
  /** Replaces the current line of standard error; an empty text clears it. */
  rewrite(line: string): void;
  /** From now on a closed standard output does not end the process. */
  outliveReader(): void;
  /** Width of progress lines: COLUMNS, else the width of the terminal, else 80. */
  readonly columns: number;
  /** Width for tables; infinite without a terminal, so that each row is one line for programs. */
  readonly table_columns: number;
  readonly gateway?: string;
  readonly interactive: boolean;
  readonly data_color: boolean;
  readonly info_color: boolean;
}

const DEFAULT_COLUMNS = 80;

/** The process's own streams. A closed standard output, as with `head`, ends the process silently. */
export function processTerminal(env: NodeJS.ProcessEnv): Terminal {
  let outlive = false;
  const colorful = (env.NO_COLOR ?? '') === '' && env.TERM !== 'dumb';
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (outlive) return;
    if (error.code === 'EPIPE') process.exit(0);
    process.exitCode = 1;
    process.stderr.write(`appscli: cannot write to standard output: ${error.message}\n`, () => process.exit());
  });
  process.stderr.on('error', () => {});
  // A terminal of unknown width reports 0.
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

const INPUT_BYTES_MAX = 64 * 1024;

/** Interactive input of a command. */
export interface Input {
  readonly answers: boolean;
  /** Asks a question and returns the typed line; `hidden` disables the echo. Raises StartError without input. */
  line(question: string, hidden: boolean): Promise<string>;
  /** Everything on standard input. Raises StartError for more than 64 KiB. */
  all(): Promise<string>;
}

/** The process's own standard input; questions go to standard error. */
export function processInput(): Input {
  const answers = process.stdin.isTTY === true && process.stderr.isTTY === true;
  return {
    answers,
    async line(question, hidden) {
      process.stderr.write(question);
      const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
      const output = hidden ? nowhere : process.stderr;
      const lines = createInterface({ input: process.stdin, output, terminal: true });
      try {
        return await new Promise<string>((resolve, reject) => {
          const stopped = () => reject(new StartError('stopped; nothing was written', { exit_code: 1 }));
          lines.once('line', resolve).once('close', stopped).once('SIGINT', stopped);
        });
      } finally {
        lines.close();
        process.stdin.pause();
        if (hidden) process.stderr.write('\n');
      }
    },
    async all() {
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > INPUT_BYTES_MAX)
          throw new StartError('standard input has more than 64 KiB; expected a token', { exit_code: 64 });
        chunks.push(chunk);
      }
      return Buffer.concat(chunks).toString('utf8');
    },
  };
}
