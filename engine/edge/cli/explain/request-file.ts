import { readFileSync } from 'node:fs';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { CaseRequest, Json, JsonObject } from '../../../pipeline/load/tests/test-case.ts';
import { usageError } from '../exit-codes.ts';

/** Keys of a file that describes a complete request instead of only a body. */
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

const CREDENTIALS = new Set(['authorization', 'x-api-key']);

/** Connection headers and credentials, which are ignored. */
const LEFT_OUT = new Set([
  'host',
  'connection',
  'keep-alive',
  'content-length',
  'transfer-encoding',
  'expect',
  'upgrade',
  ...CREDENTIALS,
]);

/**
 * Adds headers, each as `name: value`. Repeated names are joined, and replace the file's header. Raises StartError.
 */
export function withHeaders(request: CaseRequest, lines: readonly string[]): CaseRequest {
  if (lines.length === 0) return request;
  const added = Object.groupBy(lines.map(headerOf), ([name]) => name);
  const joined = Object.entries(added).map(([name, pairs = []]) => [name, pairs.map(([, value]) => value).join(', ')]);
  return { ...request, headers: { ...request.headers, ...Object.fromEntries(joined) } };
}

function headerOf(text: string): readonly [name: string, value: string] {
  const colon = text.indexOf(':');
  const [name, value] = [text.slice(0, colon).trim().toLowerCase(), text.slice(colon + 1).trim()];
  if (colon <= 0 || !isHeader(name, value)) {
    throw usageError(`--header ${text}: expected a name, a colon and a value, such as --header 'x-team: red'`);
  }
  if (CREDENTIALS.has(name)) {
    throw usageError(`--header ${name}: a dry run needs no credential; use --user, --group and --token-name`);
  }
  if (LEFT_OUT.has(name)) throw usageError(`--header ${name}: a connection header, which rules cannot see`);
  return [name, value];
}

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
    throw usageError(`cannot read ${file}: ${code === 'EACCES' ? 'permission denied' : message}`);
  }
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // Invalid JSON is a valid test: the explanation shows the gateway's response.
    return undefined;
  }
}

function isWhole(value: Json | undefined): value is JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => Object.hasOwn(KEYS, key));
}

/**
 * Reads a request from a file: a JSON object with `method`, `path`, `headers` and `json` or `text`; any other content is a
 * body. Drops connection headers and credentials, so that recorded requests can be pasted. Raises StartError.
 */
export function readRequest(file: string): CaseRequest {
  const text = readText(file);
  const value = parse(text);
  if (!isWhole(value)) return { text };
  for (const [key, { expected, isRight }] of Object.entries(KEYS)) {
    if (Object.hasOwn(value, key) && !isRight(value[key])) throw usageError(`${file}: \`${key}\` must be ${expected}`);
  }
  if ('json' in value && 'text' in value) throw usageError(`${file}: \`json\` and \`text\` exclude each other`);
  const request = value as CaseRequest;
  const headers = Object.entries(request.headers ?? {}).map(([name, own]) => [name.toLowerCase(), own] as const);
  return { ...request, headers: Object.fromEntries(headers.filter(([name]) => !LEFT_OUT.has(name))) };
}
