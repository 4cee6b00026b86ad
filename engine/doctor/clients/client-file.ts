import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import { BrokenFile } from '../../client-files/broken-file.ts';
import { parseObject } from '../../client-files/json-text.ts';
import { StartError } from '../../contract/start-error.ts';
import type { Desk } from '../desk.ts';
import type { Diagnosis } from '../diagnosis.ts';

/** A place in a file, as every diagnosis names it. */
export function positionOf(path: string, line?: number): string {
  return line === undefined ? path : `${path}:${line}`;
}

/** The line of a member of a JSON text, counted from 1; `undefined` where there is none. */
export function lineInJson(text: string, keys: readonly string[]): number | undefined {
  try {
    const tree = parseTree(text);
    const value = tree && findNodeAtLocation(tree, [...keys]);
    return value && text.slice(0, (value.parent ?? value).offset).split('\n').length;
  } catch {
    // It is nested too deeply to be looked at.
    return undefined;
  }
}

/** A file of a client that was read. */
export interface ClientFile {
  readonly path: string;
  readonly text: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/**
 * Reads a file of a client.
 * @returns the file, `undefined` where there is none, or what is wrong with it where it can't be read or understood
 */
export function readClientFile(
  desk: Pick<Desk, 'read'>,
  path: string,
  { id, title, parse }: Pick<Diagnosis, 'id' | 'title'> & { readonly parse: (text: string) => Record<string, unknown> },
): ClientFile | { readonly broken: Diagnosis } | undefined {
  try {
    const text = desk.read(path);
    if (text === undefined) return undefined;
    return { path, text, values: text.trim() === '' ? {} : parse(text) };
  } catch (error) {
    if (error instanceof BrokenFile) {
      const remedy = 'mend it by hand, or move it away and set the client up again with appscli client';
      return {
        broken: { id, title, verdict: 'failed', where: positionOf(path, error.line), found: error.message, remedy },
      };
    }
    if (error instanceof StartError) {
      const remedy = 'the client cannot read it either: put that right';
      return { broken: { id, title, verdict: 'failed', where: path, found: error.message, remedy } };
    }
    throw error;
  }
}

/** Like `readClientFile`, for a JSON file. */
export function readJsonFile(desk: Pick<Desk, 'read'>, path: string, named: Pick<Diagnosis, 'id' | 'title'>) {
  return readClientFile(desk, path, { ...named, parse: parseObject });
}

const OTHERS = 0o077;

/** What is wrong with the rights of a file that holds a credential; nothing where only its owner may use it. */
export function examineRights(
  desk: Pick<Desk, 'rights'>,
  path: string,
  named: Pick<Diagnosis, 'id' | 'title'>,
): Diagnosis[] {
  const rights = desk.rights(path);
  if (rights === undefined || (rights & OTHERS) === 0) return [];
  return [
    {
      ...named,
      verdict: 'warning',
      where: path,
      found: `it holds a credential, and other users of this machine may use it (mode ${rights.toString(8).padStart(4, '0')})`,
      remedy: 'chmod 600 it; make another token if somebody else works at this machine',
      fixes: [{ path, change: (before) => before, secret: true }],
    },
  ];
}

/** Whether a text looks like a credential: long, with letters and digits, and not like a sentence, an address or a name. */
export function looksLikeKey(text: string): boolean {
  if (/^(?:gw|sk|pk|xai|key)[-_][A-Za-z0-9_-]{8,}$/i.test(text)) return true;
  return /^[A-Za-z0-9_\-.=+/]{24,}$/.test(text) && /\d/.test(text) && /[a-z]/.test(text);
}
