import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { runCheck } from '../../engine/edge/cli/check.ts';
import { stages } from '../../stages/index.ts';
import { collectingTerminal } from '../cli/support.ts';
import { changed, type Section, sectionsOf, withoutDirectory } from './cases.ts';

const BASE = join(import.meta.dirname, 'base');
/** Sections that would add their warnings to every finding: with variables of their own. */
const LATER = join(import.meta.dirname, 'later-sections');

/** Text as one character per byte, with `\xNN` as that byte. */
function bytesOf(text: string): string {
  const bytes = Buffer.from(text, 'utf8').toString('latin1');
  return bytes.replace(/\\x([0-9a-f]{2})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}

/** Changes a copy of the base as one section says. */
function apply({ name, how, text: hunks }: Section, directory: string): void {
  const file = join(directory, name);
  if (how === 'absent') {
    rmSync(file);
    return;
  }
  if (how === 'new') mkdirSync(dirname(file), { recursive: true });
  let text = how === 'new' ? '' : readFileSync(file, 'latin1');
  if (how === 'with later-sections') text += readFileSync(LATER, 'latin1');
  text = changed(text, bytesOf(hunks), name);
  writeFileSync(file, how === 'Windows line breaks' ? text.replaceAll('\n', '\r\n') : text, 'latin1');
}

/** What `appscli check` prints about the base configuration after the changes of an input; see README.md. */
export async function checkChanged(input: string): Promise<string> {
  // One place for all, which come one after the other: what none of them changes is parsed once.
  const directory = join(tmpdir(), `appscli-check-${process.pid}`);
  cpSync(BASE, directory, { recursive: true });
  const printed: string[] = [];
  let paths = [directory];
  for (const section of sectionsOf(input)) {
    if (section.name !== 'check') apply(section, directory);
    else paths = section.how.split(' ').map((path) => join(directory, path));
  }
  try {
    const env = { DATABASE_URL: 'set', UPSTREAM_KEY: 'set', SPARE_TOKEN: 'set' };
    const print = (text: string) => void printed.push(text);
    const terminal = { ...collectingTerminal().terminal, data: print, info: print };
    await runCheck({ terminal, env, stages: async () => stages }, { paths, cwd: directory, format: 'text' });
    return withoutDirectory(printed.join(''), directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
