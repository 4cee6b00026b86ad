import type { Draft } from '../../client-files/draft.ts';
import { showDiff, withoutCredentials } from '../../client-files/show-diff.ts';
import { writeUserFiles } from '../../client-files/user-file.ts';
import { jsonText } from '../../kit/text/printable.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK } from '../exit-codes.ts';
import type { Input } from './client-input.ts';
import type { ClientOptions } from './client-options.ts';

/** What became of a file. */
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
  how: Pick<ClientOptions, 'write' | 'print' | 'json'> & {
    readonly input: Input;
    readonly token: string | undefined;
    /** What else `--json` tells. */
    readonly facts: Readonly<Record<string, unknown>>;
  },
): Promise<number> {
  const { token } = how;
  if (how.print) {
    if (how.json) terminal.data(`${jsonText({ ...how.facts, files: drafts.map((each) => printed(each, token)) })}\n`);
    else for (const draft of drafts) terminal.verbatim(printedText(draft, drafts.length, token));
    return EXIT_OK;
  }
  const changed = drafts.filter(({ before, after }) => before !== after);
  const written = changed.length > 0 && (await mayWrite(terminal, changed, how));
  const backups = written ? writeUserFiles(changed) : [];
  const outcomes = drafts.map((draft): Outcome => {
    const index = changed.indexOf(draft);
    const change = index < 0 ? 'none' : written ? 'written' : 'proposed';
    return { path: draft.path, change, backup: backups[index] ?? null };
  });
  for (const outcome of outcomes) terminal.info(`${formatOutcome(outcome)}\n`);
  if (how.json) terminal.data(`${jsonText({ ...how.facts, files: outcomes })}\n`);
  return changed.length === 0 || written ? EXIT_OK : EXIT_FINDINGS;
}

async function mayWrite(
  terminal: CommandContext['terminal'],
  changed: readonly Draft[],
  { write, input, token }: Parameters<typeof offerDrafts>[2],
): Promise<boolean> {
  for (const draft of changed) terminal.info(showDiff(draft, token, terminal.info_color));
  if (write) return true;
  if (!input.answers) {
    terminal.info('Nobody is there to ask: run this again with --write to write it.\n');
    return false;
  }
  return /^y(?:es)?$/i.test((await input.line('Write this? [y/N] ', false)).trim());
}

function formatOutcome({ path, change, backup }: Outcome): string {
  if (change === 'none') return `${path} says so already; nothing to write`;
  if (change === 'proposed') return `${path} was not written`;
  return backup === null ? `${path} is new` : `${path} is written; what it was is in ${backup}`;
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
