import { isUtf8 } from 'node:buffer';
import { readFileSync, statSync } from 'node:fs';
import type { Findings } from './findings.ts';
import type { Mark } from './node.ts';

/** Largest configuration file that is read, in bytes. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;

const NEWLINE = 0x0a;
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'it is a directory',
  ELOOP: 'its symbolic links lead in a circle',
  ENAMETOOLONG: 'its name is too long',
};

/** Why a file or directory that is there cannot be read. */
export function whyUnreadable({ code = 'unknown reason' }: NodeJS.ErrnoException): string {
  return REASONS[code] ?? code;
}

/** Reports why a file or directory cannot be read. */
export function reportUnreadable(file: string, error: NodeJS.ErrnoException, findings: Findings): undefined {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
    findings.report('C1001', { file }, 'the file does not exist');
  } else {
    findings.report('C1002', { file }, `the file cannot be read: ${whyUnreadable(error)}`);
  }
}

function readBytes(file: string, findings: Findings): Buffer | undefined {
  try {
    const stats = statSync(file);
    // Reading a pipe or a device may never end.
    if (!stats.isFile() && !stats.isDirectory()) {
      findings.report('C1002', { file }, 'the file cannot be read: it is a pipe, a socket or a device');
      return undefined;
    }
    if (stats.size > MAX_FILE_BYTES) {
      findings.report('C1003', { file }, `the file is too large: ${stats.size} bytes`, {
        expected: `at most ${MAX_FILE_BYTES} bytes`,
      });
      return undefined;
    }
    return readFileSync(file);
  } catch (error) {
    return reportUnreadable(file, error as NodeJS.ErrnoException, findings);
  }
}

/** The first position of a file that is not UTF-8, in a file that mostly is; `undefined` in one that is something else. */
function strayByte(file: string, bytes: Buffer): Mark | undefined {
  if (bytes.includes(0)) return undefined;
  let line = 1;
  for (let start = 0; start < bytes.length; line += 1) {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline < 0 ? bytes.length : newline + 1;
    const text = bytes.subarray(start, end);
    if (!isUtf8(text)) {
      const column = new TextDecoder('utf-8').decode(text).indexOf('\uFFFD') + 1;
      return { file, line, column, length: 1, pointer: '' };
    }
    start = end;
  }
  return undefined;
}

/** The text of a file without a byte order mark; `undefined` after reporting why there is none. */
export function readText(file: string, findings: Findings): string | undefined {
  const bytes = readBytes(file, findings);
  if (bytes === undefined) return undefined;
  const text = new TextDecoder('utf-8').decode(bytes);
  if (isUtf8(bytes)) return text;
  const position = strayByte(file, bytes);
  if (position !== undefined) findings.read(file, text);
  findings.report('C1004', position ?? { file }, 'the file is not UTF-8 text', { help: 'save the file as UTF-8' });
  return undefined;
}

/** What no text editor shows and a terminal acts upon; tabs and line breaks are not among them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

/** Offset of the first character that no configuration file holds on purpose. */
export function controlCharacter(text: string): number | undefined {
  const at = text.search(CONTROL);
  return at < 0 ? undefined : at;
}

/** How a character is written in Unicode's notation: `U+0000`. */
export function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}
