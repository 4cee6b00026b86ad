/**
 * Expensive JSON: members to put into a request or a response, of a given size in bytes; and a gateway to send it to.
 */
import { message } from '../../support/model-provider/scripted-upstream.ts';
import { bearer, send } from '../support/client.ts';
import { openProcessScene } from '../support/process-scene.ts';

function filled(size: number, unit: string): string {
  return unit.repeat(Math.floor(size / Buffer.byteLength(unit)));
}

/** As many values as fit, each made by its index. */
function counted(size: number, make: (index: number) => string): string {
  const parts: string[] = [];
  for (let length = 0, index = 0; length < size; index++) {
    const part = make(index);
    parts.push(part);
    length += part.length + 1;
  }
  return parts.join(',');
}

const pad = (index: number, length: number) => `${index}${'x'.repeat(length)}`;

/** By name: the text of a member `"x"`, or of more members. Those of `few` have no more values than a request may. */
export const HOSTILE: Readonly<Record<string, (size: number) => string>> = {
  'nested lists': (size) => `"x":${filled(size / 2, '[')}${filled(size / 2, ']')}`,
  'empty lists': (size) => `"x":[${filled(size, '[],')}0]`,
  'empty objects': (size) => `"x":[${filled(size, '{},')}0]`,
  'distinct keys': (size) => counted(size, (index) => `"k${index}":0`),
  'short strings': (size) => `"x":[${filled(size, '"",')}0]`,
  digits: (size) => `"x":${filled(size, '7')}`,
  'few lists, 100 levels each': (size) =>
    `"x":[${counted(Math.min(size, 990_000), () => `${'['.repeat(100)}${']'.repeat(100)}`)}]`,
  'few empty lists': (size) => `"x":[${counted(Math.min(size, 1_490_000), () => '[]')}]`,
  'few distinct keys': (size) => counted(Math.min(size, 9_000_000), (index) => `"k${pad(index, 100)}":0`),
  'few objects with distinct keys': (size) =>
    `"x":[${counted(Math.min(size, 6_000_000), (index) => `{"a${index}":0,"b${pad(index, 100)}":1}`)}]`,
  'few objects with ten distinct keys': (size) => {
    const object = (index: number) => `{${Array.from({ length: 10 }, (_, key) => `"k${index}_${key}":0`).join(',')}}`;
    return `"x":[${counted(Math.min(size, 1_850_000), object)}]`;
  },
  'few keys with escapes': (size) => counted(Math.min(size, 9_000_000), (index) => `"\\u0061${pad(index, 100)}":0`),
  'few keys with accents': (size) => counted(Math.min(size, 9_000_000), (index) => `"\u00e9${pad(index, 100)}":0`),
  'few long numbers': (size) => `"x":[${counted(size, () => `1.${'7'.repeat(size / 480_000)}e-3`)}]`,
  'one string': (size) => `"x":"${filled(size, 'a')}"`,
  'one string of escapes': (size) => `"x":"${filled(size, '\\u4e2d')}"`,
  'one string of quotes': (size) => `"x":"${filled(size, '\\"')}"`,
  'one string of backslashes': (size) => `"x":"${filled(size, '\\\\')}"`,
  'one string of emoji': (size) => `"x":"${filled(size, '\u{1f600}')}"`,
  'one string of escaped surrogates': (size) => `"x":"${filled(size, '\\ud83d\\ude00a')}"`,
  'one key': (size) => `"${filled(size, '\\u00e9')}":1`,
  'one open key and many values': (size) =>
    `"${filled(size / 2, 'é')}":[${filled(Math.min(size / 2, 900_000), '0,')}0]`,
  'one text of 100,000 blanks and braces': (size) => `"x":"${filled(size, `${' '.repeat(1000)}{[`)}"`,
  blanks: (size) => `"x":${filled(size, ' ')}1`,
};

/** How much of it is sent: as much as a request may have, nearly. */
export const SIZE = 31 * 1024 * 1024;
export const HOSTILE_REQUEST = '{"model":"coder-1","max_tokens":64,"messages":[{"role":"user","content":"hi"}]';
/** A response without its end, for more members. */
export const HOSTILE_ANSWER = JSON.stringify(message()).slice(0, -1);

/** Starts a gateway whose heap is small, in a process of its own, with more options of Node.js if given. */
export async function startHostileTarget(options = '') {
  const scene = await openProcessScene();
  scene.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --max-old-space-size=512 ${options}`;
  const gateway = await scene.start();
  const token = await scene.newToken();
  const { upstream, database_url, close } = scene;
  /** Sends the same twice at once. */
  const twice = (path: string, body: Buffer | string) =>
    Promise.all([1, 2].map(() => send(gateway.url, { path, headers: bearer(token), body })));
  return { upstream, database_url, gateway, token, twice, close };
}
