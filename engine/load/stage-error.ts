/** Where a stage module of the operator's broke when it was loaded. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Mark } from '../source/node.ts';
import { READING } from './stage-modules.ts';

/** Longest that looking for a mistake in one file may take, in milliseconds. */
const PATIENCE_MS = 5000;

const IN_MODULE = new RegExp(`(file://[^\\s()]+?)${READING.replace('?', '\\?')}\\d+:(\\d+)(?::(\\d+))?`);
const IN_FILE = /^(\/.+):(\d+)$/m;

/** Node marks the mistake on a line of its own, below the code. */
function marked(text: string): Pick<Mark, 'column' | 'length'> {
  const line = /^( *)(\^+)$/m.exec(text);
  return line === null ? { column: 1, length: 1 } : { column: line[1]!.length + 1, length: line[2]!.length };
}

function inStack(stack: string): Mark | undefined {
  const [, url, line, column] = IN_MODULE.exec(stack) ?? [];
  if (url === undefined) return undefined;
  const at = column === undefined ? marked(stack) : { column: Number(column), length: 1 };
  return { file: fileURLToPath(url), line: Number(line), ...at, pointer: '' };
}

/** An import that fails does not tell where JavaScript is broken; Node's own check of a file does. */
function inFile(file: string): Mark | undefined {
  const { stderr } = spawnSync(process.execPath, ['--check', file], { encoding: 'utf8', timeout: PATIENCE_MS });
  const [, checked, line] = IN_FILE.exec(stderr ?? '') ?? [];
  return checked === undefined ? undefined : { file: checked, line: Number(line), ...marked(stderr), pointer: '' };
}

/** Where a module is imported that is not there. */
function importOf({ message }: Error): Mark | undefined {
  const [, name = '', file = ''] = /^Cannot find (?:module|package) '(.+)' imported from (\/.+)$/.exec(message) ?? [];
  if (name === '' || !existsSync(file)) return undefined;
  const end = name.startsWith('/') ? basename(name) : name;
  const lines = readFileSync(file, 'utf8').split('\n');
  const line = lines.findIndex((text) => /\b(?:import|from)\b/.test(text) && text.includes(end));
  if (line < 0) return undefined;
  const column = lines[line]!.indexOf(end);
  return { file, line: line + 1, column: column + 1, length: end.length, pointer: '' };
}

/**
 * The place that an error of importing a module is about; `undefined` when nothing tells it.
 * @param files the module and what it imports, absolute.
 */
export function placeOfError(error: unknown, files: readonly string[]): Mark | undefined {
  if (!(error instanceof Error)) return undefined;
  const missing = importOf(error);
  if (missing !== undefined) return missing;
  const place = inStack(String(error.stack));
  if (place !== undefined || !(error instanceof SyntaxError)) return place;
  return files.map(inFile).find((found) => found !== undefined);
}
