/**
 * The memory that bodies cost: `node test/bench/memory.ts`. Sends fifty bodies of 32 MiB at once, by ten callers, and says how
 * far the gateway's memory grows, beside what `appscli check` promises, and what it keeps afterwards.
 * @module
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startChild, startGoverned, stopChildren } from './processes.ts';
import type { ProcessUsage } from './servers/process-usage.ts';

const MIB = 1024 * 1024;
const BODIES = 50;
const CALLERS = 10;
const directory = mkdtempSync(join(tmpdir(), 'appscli-memory-'));
const inMib = (bytes: number) => `${(bytes / MIB).toFixed(0)} MiB`;
const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

const frame = JSON.stringify({ model: 'bench-model', max_tokens: 512, messages: [{ role: 'user', content: '' }] });
const [start, end] = frame.split('""') as [string, string];
const TEXT = Buffer.concat([
  Buffer.from(`${start}"`),
  Buffer.alloc(32 * MIB - frame.length, process.argv[2] === '--wide' ? '\u6f22 ' : 'some words '),
  Buffer.from(`"${end}`),
]);

function send(url: string, token: string): Promise<number> {
  return new Promise((resolve) => {
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'content-length': TEXT.length,
      // Long enough for all of them to be there before the first is answered.
      'x-bench-delay': '6000',
    };
    const req = request(`${url}/v1/messages`, { method: 'POST', headers, agent: false });
    req.on('response', (res) => res.resume().on('end', () => resolve(res.statusCode!)));
    req.on('error', () => resolve(0));
    req.end(TEXT);
  });
}

try {
  const upstream = await startChild<{ url: string }>('servers/upstream.ts');
  const gateway = await startGoverned({ upstream: upstream.ready.url, directory });
  const { url } = gateway.ready;
  const tokens: string[] = [];
  for (let i = 0; i < CALLERS; i++) tokens.push(await gateway.ask('token_of', `person-${i}@example.com`));
  await send(url, tokens[0]!);
  await pause(2);
  for (let round = 1; round <= 3; round++) {
    await gateway.ask('reset_peak');
    const before = await gateway.ask<NodeJS.MemoryUsage>('memory');
    const statuses = await Promise.all(Array.from({ length: BODIES }, (_, i) => send(url, tokens[i % CALLERS]!)));
    const { peak_rss_bytes } = await gateway.ask<ProcessUsage>('usage');
    await pause(5);
    const after = await gateway.ask<NodeJS.MemoryUsage>('memory');
    const counts = Map.groupBy(statuses, (status) => status);
    console.log(
      `round ${round}: ${[...counts].map(([status, all]) => `${all.length} times ${status}`).join(', ')}; memory before ${inMib(before.rss)}, most ${inMib(peak_rss_bytes)} (${inMib(peak_rss_bytes - before.rss)} more), 5 s afterwards ${inMib(after.rss)} (heap ${inMib(after.heapTotal)}, buffers ${inMib(after.arrayBuffers)})`,
    );
  }
} finally {
  await stopChildren();
  rmSync(directory, { recursive: true, force: true });
}
