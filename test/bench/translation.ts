/**
 * What translation between protocols costs: CPU time per streamed event of each pair, with what its answer keeps in memory.
 * `node test/bench/translation.ts` prints a table; times in microseconds. Fails when a pair misses the goal.
 *
 *     node --expose-gc test/bench/translation.ts             all pairs, with memory
 *     node test/bench/translation.ts --only chat-messages    one pair: what the client speaks, then what the upstream speaks
 * @module
 */
import type { Protocol } from '../../engine/contract/protocol.ts';
import { translatorFor } from '../protocols/translation/model-answers.ts';
import { PAIRS } from '../protocols/translation/translating.ts';
import { eventsOf, type Said } from '../support/model-provider/model-provider.ts';

const EVENTS = 200_000;
const ROUNDS = 3;
const GOAL_US = 25;
/** What a stream of this many events may leave on the heap, beside what its protocol must repeat at the end. */
const GOAL_MIB = 4;

const WORD = 'Hello, wörld "quoted"\n';
const ARGUMENTS = JSON.stringify({ path: '/src/main.ts', content: `${WORD.repeat(EVENTS)}` });

/** What is streamed; each is said in pieces the size of a token or two. */
const KINDS: Readonly<Record<string, (events: number) => Said>> = {
  text: (events) => ({ kind: 'text', text: WORD.repeat(Math.ceil((events * 6) / WORD.length)) }),
  thinking: (events) => ({ kind: 'thought', text: WORD.repeat(Math.ceil((events * 6) / WORD.length)) }),
  arguments: (events) => ({ kind: 'call', name: 'write_file', arguments: `${ARGUMENTS.slice(0, events * 6)}"}` }),
};

/** The bytes of the upstream's events, one chunk each: what is slowest, and what a model at work looks like. */
function chunksOf(upstream: Protocol, said: Said): Buffer[] {
  return eventsOf(upstream, { said: [said], piece: 6 }).map((event) => Buffer.from(event));
}

/** CPU time per event, in microseconds, and MiB that are still held before the end of the stream. */
function round(from: Protocol, to: Protocol, chunks: readonly Buffer[]): { us: number; mib: number } {
  const converter = translatorFor(from, to, true, 'stream');
  let bytes = 0;
  globalThis.gc?.();
  const heap = process.memoryUsage().heapUsed;
  const start = process.cpuUsage();
  for (const chunk of chunks.slice(0, -8)) bytes += converter.write(chunk).length;
  const { user, system } = process.cpuUsage(start);
  globalThis.gc?.();
  const held = process.memoryUsage().heapUsed - heap;
  for (const chunk of chunks.slice(-8)) bytes += converter.write(chunk).length;
  converter.end();
  if (bytes < chunks.length) throw new Error('the client got next to nothing');
  return { us: (user + system) / chunks.length, mib: held / 2 ** 20 };
}

const only = process.argv[process.argv.indexOf('--only') + 1];
const kinds = Object.keys(KINDS);
console.log(
  `${'client <- upstream'.padEnd(26)}${kinds.map((kind) => kind.padStart(11)).join('')}${'MiB held'.padStart(11)}`,
);
for (const { from, to } of PAIRS) {
  if (process.argv.includes('--only') && only !== `${from}-${to}`) continue;
  const results = kinds.map((kind) => {
    const chunks = chunksOf(to, KINDS[kind]!(EVENTS));
    const rounds = Array.from({ length: ROUNDS }, () => round(from, to, chunks));
    // The other rounds also measured the machine's other work.
    return { us: Math.min(...rounds.map(({ us }) => us)), mib: Math.min(...rounds.map(({ mib }) => mib)) };
  });
  const mib = Math.max(...results.map((result) => result.mib));
  const cells = [...results.map(({ us }) => us.toFixed(1)), globalThis.gc ? mib.toFixed(1) : '-'];
  console.log(`${`${from} <- ${to}`.padEnd(26)}${cells.map((cell) => cell.padStart(11)).join('')}`);
  if (results.some(({ us }) => us > GOAL_US)) process.exitCode = 1;
  // Responses repeats whole texts at its end, and so has to keep them.
  if (globalThis.gc && from !== 'responses' && mib > GOAL_MIB) process.exitCode = 1;
}
