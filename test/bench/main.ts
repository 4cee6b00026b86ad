/** `npm run bench`: see README.md beside this file. */
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { judge, ratioIsKnown } from './goals.ts';
import { type Effort, FULL, loadAlone, measureBody, measureStreams, QUICK, warmUp } from './measure.ts';
import { type Child, inBenchDirectory, startChild, startGoverned } from './processes.ts';
import { renderProfile, selfTimes } from './profile.ts';
import { type Results, renderDecisions, renderReport } from './report.ts';
import { ownServer, type Server } from './servers.ts';

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
  return { ...values, parts: PARTS.filter((part) => parts.includes(part)), effort: values.quick ? QUICK : FULL };
}

const progress = (text: string) => process.stderr.write(`${text}\n`);

/** What takes part in a run. */
interface Cast {
  readonly servers: readonly Server[];
  readonly load: Child<unknown>;
  readonly gateway: Child<unknown>;
}

async function startCast(directory: string): Promise<Cast> {
  const upstream = await startChild<{ url: string }>('servers/upstream.ts');
  const { url } = upstream.ready;
  const bare = await startChild<{ url: string }>('servers/bare-hop.ts', { args: [url] });
  const collector = await startChild<{ url: string }>('servers/collector.ts');
  const gateway = await startGoverned({ upstream: url, directory, spare: true, collector: collector.ready.url });
  const { token } = gateway.ready;
  return {
    servers: [
      ownServer('direct', { url, token: 'none' }, upstream, true),
      ownServer('bare', { url: bare.ready.url, token }, bare),
      ownServer('governed', gateway.ready, gateway),
    ],
    load: await startChild<object>('load/generator.ts'),
    gateway,
  };
}

/** Takes a profile of the gateway under the load of one part, after the measurement, which it would disturb. */
async function profile({ servers, load, gateway }: Cast, part: Part, effort: Effort): Promise<void> {
  progress(`taking a profile of ${part}`);
  const governed = servers.find(({ name }) => name === 'governed')!;
  await gateway.ask('start_profile');
  await loadAlone(governed, load, part, effort);
  const text = await gateway.ask<string>('stop_profile');
  const file = `gateway-${part}.cpuprofile`;
  writeFileSync(file, text);
  console.log(`\n${file}: where the gateway's time went, by itself\n${renderProfile(selfTimes(JSON.parse(text)))}\n`);
}

async function measure(cast: Cast, parts: readonly Part[], effort: Effort, profiles: boolean) {
  const { servers, load } = cast;
  progress('warming up');
  await warmUp(servers, load, effort);
  const bodies: Results['bodies'] = {};
  let streams: Results['streams'];
  // Streams first, because a process that has relayed megabytes keeps their memory.
  for (const part of parts.toSorted((a, b) => Number(b === 'streams') - Number(a === 'streams'))) {
    progress(`measuring ${part === 'streams' ? '512 streams' : `${part} bodies`}`);
    if (part === 'streams') streams = await measureStreams(servers, load, effort, ratioIsKnown);
    else bodies[part] = await measureBody(servers, load, part, effort, ratioIsKnown);
    if (profiles) await profile(cast, part, effort);
  }
  return { bodies, ...(streams === undefined ? {} : { streams }) };
}

const { parts, effort, quick, profile: profiles, json } = options();
await inBenchDirectory(async (directory) => {
  const started = performance.now();
  progress('starting the upstream, the bare hop, PostgreSQL and the gateway');
  const measured = await measure(await startCast(directory), parts, effort, profiles);
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
  console.log(`${renderReport(results)}\n\n${renderDecisions(decisions)}`);
  progress(`\nwritten to ${json}`);
  process.exitCode = decisions.every(({ met }) => met) ? 0 : 1;
});
