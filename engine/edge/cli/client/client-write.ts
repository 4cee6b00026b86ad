import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { StartError } from '../../../base/contract/start-error.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import type { Draft } from '../../client-files/clients.ts';
import { showDiff, withoutCredentials } from '../../client-files/show-diff.ts';
import { writeUserFiles } from '../../client-files/user-file.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK, usageError } from '../exit-codes.ts';
import type { ClientOptions } from './client-options.ts';

interface Outcome {
  readonly path: string;
  readonly change: 'none' | 'proposed' | 'written';
  readonly backup: string | null;
}

/**
 * Shows file changes, asks, and writes. `--print` prints the complete files; `--write` does not ask. Returns the exit code: 1
 * if changes were not written.
 */
export async function offerDrafts(
  { terminal }: CommandContext,
  drafts: readonly Draft[],
  { write, print, json }: Pick<ClientOptions, 'write' | 'print' | 'json'>,
  how: {
    readonly input: Input;
    readonly token: string | undefined;
    readonly facts: Readonly<Record<string, unknown>>;
  },
): Promise<number> {
  const { token, input, facts } = how;
  if (print) {
    if (json) terminal.data(`${jsonText({ ...facts, files: drafts.map((each) => printed(each, token)) })}\n`);
    else for (const draft of drafts) terminal.verbatim(printedText(draft, drafts.length, token));
    return EXIT_OK;
  }
  const changed = drafts.filter(({ before, after }) => before !== after);
  const { is_written, files } =
    changed.length === 0
      ? { is_written: false, files: [] }
      : await writeDrafts(terminal, changed, { write: write === true, input, hides: token ?? [] });
  const outcomes = drafts.map(({ path }): Outcome => {
    const outcome = files.find((file) => file.path === path);
    if (outcome === undefined) terminal.info(`${path} is up to date\n`);
    return outcome ?? { path, change: 'none', backup: null };
  });
  if (json) terminal.data(`${jsonText({ ...facts, files: outcomes })}\n`);
  return changed.length === 0 || is_written ? EXIT_OK : EXIT_FINDINGS;
}

/** Shows changes, asks unless `write`, and writes all files or none. Raises StartError. */
export async function writeDrafts(
  terminal: CommandContext['terminal'],
  drafts: readonly Draft[],
  how: { readonly write: boolean; readonly input: Input; readonly hides: string | readonly string[] },
): Promise<{ readonly is_written: boolean; readonly files: readonly Outcome[] }> {
  for (const draft of drafts) {
    const { path, before, after, secret } = draft;
    if (before !== after) terminal.info(showDiff(draft, how.hides, terminal.info_color));
    if (secret) terminal.info(`${path} will be readable only by you\n`);
  }
  const is_written = await mayWrite(terminal, how);
  const backups = is_written ? writeUserFiles(drafts) : [];
  const files = drafts.map(({ path, before }, index): Outcome => {
    const backup = backups[index] ?? null;
    const was = backup === null ? '' : `; backup: ${backup}`;
    const is = !is_written ? 'was not written' : before === undefined ? 'was created' : `was written${was}`;
    terminal.info(`${path} ${is}\n`);
    return { path, change: is_written ? 'written' : 'proposed', backup };
  });
  return { is_written, files };
}

async function mayWrite(
  terminal: CommandContext['terminal'],
  { write, input }: { readonly write: boolean; readonly input: Input },
): Promise<boolean> {
  if (write) return true;
  if (!input.answers) {
    terminal.info('Cannot ask without a terminal: run this again with --write.\n');
    return false;
  }
  return /^y(?:es)?$/i.test((await input.line('Write these changes? [y/N] ', false)).trim());
}

function printed({ path, after }: Draft, token: string | undefined) {
  return { path, text: withoutCredentials(after, token) };
}

function printedText(draft: Draft, files: number, token: string | undefined): string {
  const { path, text } = printed(draft, token);
  // Several files need headings; a single file can be redirected.
  const heading = files === 1 ? '' : `# ${path}\n`;
  return `${heading}${text}${text.endsWith('\n') ? '' : '\n'}`;
}

const BYTES_MAX = 64 * 1024;

/** Interactive input of a command. */
export interface Input {
  /** Whether questions can be asked. */
  readonly answers: boolean;
  /** Asks a question and returns the typed line; `hidden` disables the echo. Raises StartError without an answer. */
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
      const lines = createInterface({
        input: process.stdin,
        output: hidden ? nowhere : process.stderr,
        terminal: true,
      });
      try {
        return await new Promise<string>((resolve, reject) => {
          const stopped = () => reject(new StartError('stopped; nothing was written', { exit_code: EXIT_FINDINGS }));
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
        if (bytes > BYTES_MAX) {
          throw usageError('standard input has more than 64 KiB; expected a token');
        }
        chunks.push(chunk);
      }
      return Buffer.concat(chunks).toString('utf8');
    },
  };
}
