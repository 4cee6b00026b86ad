/** Large inputs cost time in proportion to their size, also where Node.js does the work in one call and no step is counted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonScan } from '../../engine/base/kit/json/scan.ts';
import { createFindings } from '../../engine/base/source/findings.ts';
import { parseSource } from '../../engine/base/source/source.ts';
import { readPrivileged } from '../../engine/domain/protocols/body/read-privileged.ts';
import { StopCutter } from '../../engine/domain/protocols/translation/stop-sequences.ts';
import { withoutUsageChunk } from '../../engine/domain/protocols/usage.ts';
import { nonApiResponse, readAnswer } from '../../engine/edge/selfcheck/answer.ts';
import { ADDRESSES, rewritten } from '../protocols/rewriting/rewriting.ts';
import { PAIRS, translate } from '../protocols/translation/translating.ts';

const FACTOR = 8;
/** With the square of the size it would be 64. */
const FACTOR_MAX = 24;
/** Below it, what is measured is noise. */
const LEAST_MS = 4;
const ROUNDS = 3;

const many = <T>(count: number, piece: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => piece(i));
const NO_BOUNDS = { depth: Infinity, values: Infinity };
const scan = (text: string) => new JsonScan(Buffer.from(text), NO_BOUNDS).step(Infinity);

/** Each makes what is measured, of a size, and its smaller size. */
const TASKS: Readonly<
  Record<string, readonly [size: number, make: (size: number) => (() => unknown) | Promise<() => unknown>]>
> = {
  'a scan of a long string': [1_000_000, (size) => () => scan(`["${'a'.repeat(size)}"]`)],
  'a scan of escaped quotes far apart': [
    1_000_000,
    (size) => () => scan(`["${`${'a'.repeat(99)}\\"`.repeat(size / 101)}"]`),
  ],
  'a scan of a long key': [1_000_000, (size) => () => scan(`{"${'a\\"'.repeat(size / 3)}":1}`)],
  'a search for models below long keys': [
    10_000,
    (size) => {
      const model: unknown = many(500, () => ({ model: 1 }));
      const value = many(100, () => 'k'.repeat(size)).reduce((inner, key) => ({ [key]: inner }), model);
      return () => readPrivileged({ x: value });
    },
  ],
  'an event of chat completions in small pieces': [
    100_000,
    (size) => () => {
      const converter = withoutUsageChunk();
      for (const piece of many(size / 40, () => Buffer.alloc(40, 'x'))) converter.write(piece);
    },
  ],
  'a text that is cut at long sequences': [
    20_000,
    (size) => () => {
      const cutter = new StopCutter([`${'a'.repeat(size)}b`], false);
      cutter.take({ type: 'part_start', index: 0, part: { kind: 'text' } }, () => {});
      for (let i = 0; i < size; i++) cutter.take({ type: 'part_delta', index: 0, text: 'a' }, () => {});
      cutter.take({ type: 'part_end', index: 0 }, () => {});
    },
  ],
  'a text in which nothing is replaced': [50_000, (size) => () => rewritten(ADDRESSES, ['a'.repeat(size)])],
  'a file of many keys': [
    2000,
    (size) => {
      const text = many(size, (i) => `key_${i}: ${i}\n`).join('');
      return () => parseSource('file.yaml', text, createFindings());
    },
  ],
  ...Object.fromEntries(
    ['<title', '<title>', '<input ', '<h1>', '<h1>503 a', '<title>sign', ' ', '[', '{"a":'].map((text) => [
      `the recognition of a page of ${text}`,
      [
        50_000,
        async (size: number) => {
          const body = Buffer.from(text.repeat(size / text.length));
          const times = { arrivals: [{ at_ms: 5, bytes: body.length }], head_ms: 4, total_ms: 6 };
          const page = { status: 200, headers: { 'content-type': 'text/html' }, body, ...times };
          const response = await readAnswer({ ...page, ending: 'whole' });
          return () => nonApiResponse(response);
        },
      ] as const,
    ]),
  ),
  ...Object.fromEntries(
    PAIRS.map(({ from, to }) => [
      `a translation from ${from} to ${to}`,
      [
        5000,
        (size: number) => {
          const turns = many(size, (i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: 'a' }));
          return () => translate(from, to, true, { [from === 'responses' ? 'input' : 'messages']: turns });
        },
      ] as const,
    ]),
  ),
};

/** The shortest of some rounds, in milliseconds of the processor. */
function cpuMs(task: () => unknown): number {
  const rounds = many(ROUNDS, () => {
    const began = process.cpuUsage();
    task();
    const { user, system } = process.cpuUsage(began);
    return (user + system) / 1000;
  });
  return Math.min(...rounds);
}

for (const [what, [size, make]] of Object.entries(TASKS)) {
  test(`${what} has proportional duration`, async () => {
    const small = cpuMs(await make(size));
    const large = cpuMs(await make(FACTOR * size));
    assert.ok(large < FACTOR_MAX * Math.max(small, LEAST_MS), `${large} ms, of an eighth ${small} ms`);
  });
}
