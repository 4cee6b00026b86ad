import { readFileSync } from 'node:fs';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { CaseRequest, Json, JsonObject } from '../../load/tests/test-case.ts';
import { usageError } from '../exit-codes.ts';

/** What the keys of a file must hold that describes a whole request rather than a body alone. */
const KEYS: Readonly<Record<string, { readonly expected: string; isRight(value: unknown): boolean }>> = {
  method: {
    expected: 'an HTTP method, such as POST',
    isRight: (value) => typeof value === 'string' && /^[A-Za-z]+$/.test(value),
  },
  path: {
    expected: 'a path, such as /v1/messages',
    isRight: (value) => typeof value === 'string' && /^\/[!-~]*$/.test(value),
  },
  headers: { expected: 'a mapping of header names to texts', isRight: areHeaders },
  json: { expected: 'a body', isRight: () => true },
  text: { expected: 'a text', isRight: (value) => typeof value === 'string' },
};

/** Headers that belong to the connection a request was seen on, and those that say who sent it. */
const LEFT_OUT = new Set([
  'host',
  'connection',
  'keep-alive',
  'content-length',
  'transfer-encoding',
  'expect',
  'upgrade',
  'authorization',
  'x-api-key',
]);

function areHeaders(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(([name, text]) => typeof text === 'string' && isHeader(name, text));
}

function isHeader(name: string, text: string): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, text);
    return true;
  } catch {
    return false;
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw usageError(`${file} cannot be read: ${code === 'EACCES' ? 'permission denied' : message}`);
  }
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // A client may well send this: the gateway's answer to it is what is asked for.
    return undefined;
  }
}

function isWhole(value: Json | undefined): value is JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => Object.hasOwn(KEYS, key));
}

/**
 * Reads a request from a file: a JSON object with `method`, `path`, `headers` and `json` or `text`, or anything else, which
 * is a body as it stands. Headers of the connection and credentials are left out, so that a request can be pasted as it
 * was seen. Raises StartError.
 */
export function readRequest(file: string): CaseRequest {
  const text = readText(file);
  const value = parse(text);
  if (!isWhole(value)) return { text };
  for (const [key, { expected, isRight }] of Object.entries(KEYS)) {
    if (Object.hasOwn(value, key) && !isRight(value[key])) throw usageError(`${file}: \`${key}\` must be ${expected}`);
  }
  if ('json' in value && 'text' in value) throw usageError(`${file}: a request has \`json\` or \`text\`, not both`);
  const request = value as CaseRequest;
  const headers = Object.entries(request.headers ?? {}).map(([name, own]) => [name.toLowerCase(), own] as const);
  return { ...request, headers: Object.fromEntries(headers.filter(([name]) => !LEFT_OUT.has(name))) };
}
