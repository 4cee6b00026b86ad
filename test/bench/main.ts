/** `npm run bench`: see README.md beside this file. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { requestBody } from './bodies.ts';
import type { Target } from './load/generator.ts';
import { type Effort, FULL, measureBody, measureStreams, QUICK, type Server, warmUp } from './measure.ts';
import { startChild, stopChildren } from './processes.ts';
import { judge, type Results, renderReport } from './report.ts';

const PARTS = ['0.5k', '100k', '1m', 'streams'] as const;
type Part = (typeof PARTS)[number];

function options() {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', default: PARTS.join(',') },
      profile: { type: 'boolean', default: false },
      json: { type: 'string', default: 'bench-results.json' },
    },
  });
  const parts = values.only.split(',').map((part) => part.trim());
  const unknown = parts.find((part) => !PARTS.includes(part as Part));
  if (unknown !== undefined) {
    console.error(`--only ${unknown}: there is no such part; choose from ${PARTS.join(', ')}`);
    process.exit(64);
  }
  return { ...values, parts: parts as Part[], effort: values.quick ? QUICK : FULL };
}

const progress = (text: string) => process.stderr.write(`${text}\n`);

async function startServers(directory: string, profile: boolean): Promise<Server[]> {
  const upstream = await startChild<{ url: string }>('servers/upstream.ts');
  const { url } = upstream.ready;
  const bare = await startChild<{ url: string }>('servers/bare-hop.ts', { args: [url] });
  const governed = await startChild<Target>('servers/governed.ts', {
    args: [url, directory],
    node_options: profile ? ['--cpu-prof', '--cpu-prof-name=gateway.cpuprofile'] : [],
  });
  return [
    { subject: 'direct', target: { url, token: 'none' }, child: upstream },
    { subject: 'bare', target: { url: bare.ready.url, token: governed.ready.token }, child: bare },
    { subject: 'governed', target: governed.ready, child: governed },
  ];
}

async function measure(servers: Server[], parts: readonly Part[], effort: Effort) {
  const load = await startChild<object>('load/generator.ts');
  progress('warming up');
  await warmUp(servers, load, effort);
  const bodies: Record<string, unknown> = {};
  let streams: Results['streams'];
  if (parts.includes('streams')) {
    // First, because a process that has relayed megabytes keeps their memory.
    progress('measuring 512 streams');
    streams = await measureStreams(servers, load, effort);
  }
  for (const part of parts.filter((name): name is Exclude<Part, 'streams'> => name !== 'streams')) {
    progress(`measuring ${part} bodies`);
    bodies[part] = {
      bytes: requestBody(part).length,
      ...(await measureBody(servers, load, part, effort)),
    };
  }
  return { bodies: bodies as Results['bodies'], ...(streams === undefined ? {} : { streams }) };
}

async function main(): Promise<number> {
  const { parts, effort, quick, profile, json } = options();
  const directory = mkdtempSync(join(tmpdir(), 'appscli-bench-'));
  const started = performance.now();
  const clean = async () => {
    await stopChildren();
    rmSync(directory, { recursive: true, force: true });
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => clean().then(() => process.exit(130)));
  try {
    progress('starting the upstream, the bare hop, PostgreSQL and the gateway');
    const servers = await startServers(directory, profile);
    const measured = await measure(servers, parts, effort);
    const results: Results = {
      when: new Date().toISOString(),
      node: process.version,
      cpus: `${cpus().length} x ${cpus()[0]?.model ?? 'unknown CPU'}`,
      seconds: (performance.now() - started) / 1000,
      quick,
      ...measured,
    };
    const decisions = judge(results);
    writeFileSync(resolve(json), `${JSON.stringify({ ...results, decisions }, null, 2)}\n`);
    console.log(renderReport(results));
    progress(`\nwritten to ${json}${profile ? ' and gateway.cpuprofile' : ''}`);
    return decisions.every(({ met }) => met) ? 0 : 1;
  } finally {
    await clean();
  }
}

process.exitCode = await main();
