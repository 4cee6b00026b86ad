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
 * Shows what would change in a user's files, asks, and writes. Prints them whole with `--print`, writes without a
 * question with `--write`. Returns the exit code: 1 when there is something to write and it was not written.
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
    if (outcome === undefined) terminal.info(`${path} says so already; nothing to write\n`);
    return outcome ?? { path, change: 'none', backup: null };
  });
  if (json) terminal.data(`${jsonText({ ...facts, files: outcomes })}\n`);
  return changed.length === 0 || is_written ? EXIT_OK : EXIT_FINDINGS;
}

/** Shows what would change, asks unless it may `write`, and changes all files or none. Raises StartError. */
export async function writeDrafts(
  terminal: CommandContext['terminal'],
  drafts: readonly Draft[],
  how: { readonly write: boolean; readonly input: Input; readonly hides: string | readonly string[] },
): Promise<{ readonly is_written: boolean; readonly files: readonly Outcome[] }> {
  for (const draft of drafts) {
    const { path, before, after, secret } = draft;
    if (before !== after) terminal.info(showDiff(draft, how.hides, terminal.info_color));
    if (secret) terminal.info(`${path} will be readable by you alone\n`);
  }
  const is_written = await mayWrite(terminal, how);
  const backups = is_written ? writeUserFiles(drafts) : [];
  const files = drafts.map(({ path, before }, index): Outcome => {
    const backup = backups[index] ?? null;
    const was = backup === null ? '' : `; what it was is in ${backup}`;
    const is = !is_written ? 'was not written' : before === undefined ? 'is new' : `is written${was}`;
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
    terminal.info('Nobody is there to ask: run this again with --write to write it.\n');
    return false;
  }
  return /^y(?:es)?$/i.test((await input.line('Write this? [y/N] ', false)).trim());
}

function printed({ path, after }: Draft, token: string | undefined) {
  return { path, text: withoutCredentials(after, token) };
}

function printedText(draft: Draft, files: number, token: string | undefined): string {
  const { path, text } = printed(draft, token);
  // With several files a person must see which is which; one alone can go into a file as it is.
  const heading = files === 1 ? '' : `# ${path}\n`;
  return `${heading}${text}${text.endsWith('\n') ? '' : '\n'}`;
}

const BYTES_MAX = 64 * 1024;

/** What a command can learn from whoever started it. */
export interface Input {
  /** Whether somebody is there to answer. */
  readonly answers: boolean;
  /** Asks, and returns the line that was typed; one that is `hidden` is not shown. Raises StartError when there is none. */
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
          throw usageError('standard input holds more than 64 KiB, so it is no token');
        }
        chunks.push(chunk);
      }
      return Buffer.concat(chunks).toString('utf8');
    },
  };
}
