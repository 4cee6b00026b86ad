/** `npm run bench`: see README.md beside this file. */
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';
import { type Cast, startCast, startCastAgainst } from './cast.ts';
import {
  type BodyRound,
  type Enough,
  FULL,
  measureBody,
  measureStreams,
  QUICK,
  type StreamRound,
  warmUp,
} from './measure.ts';
import { readOptions } from './options.ts';
import { inBenchDirectory } from './processes.ts';
import { exitCodeOf, guard, renderGuard, verdictIsKnown } from './verdicts/against.ts';
import { judge, ratioIsKnown } from './verdicts/goals.ts';
import { type Results, renderDecisions, renderReport } from './verdicts/report.ts';

const { parts, quick, json, against } = readOptions();
const effort = quick ? QUICK : FULL;
const progress = (text: string) => process.stderr.write(`${text}\n`);

async function measure(
  { servers, load }: Cast,
  enough: Enough<BodyRound | StreamRound>,
): Promise<Pick<Results, 'bodies' | 'streams'>> {
  progress('warming up');
  await warmUp(servers, load, effort);
  const bodies: Results['bodies'] = {};
  let streams: Results['streams'];
  // Streams first, because a process that has relayed megabytes keeps their memory.
  for (const part of parts.toSorted((a, b) => Number(b === 'streams') - Number(a === 'streams'))) {
    progress(`measuring ${part === 'streams' ? '512 streams' : `${part} bodies`}`);
    if (part === 'streams') streams = await measureStreams(servers, load, effort, enough);
    else bodies[part] = await measureBody(servers, load, part, effort, enough);
  }
  return { bodies, ...(streams === undefined ? {} : { streams }) };
}

/** Shows what was measured and writes it down, with what was decided about it. */
function tell(measured: Pick<Results, 'bodies' | 'streams'>, started: number, decided: object, text: string): void {
  const results: Results = {
    when: new Date().toISOString(),
    node: process.version,
    cpus: `${cpus().length} x ${cpus()[0]?.model ?? 'unknown CPU'}`,
    seconds: (performance.now() - started) / 1000,
    quick,
    ...measured,
  };
  writeFileSync(resolve(json), `${JSON.stringify({ ...results, ...decided }, null, 2)}\n`);
  console.log(`${renderReport(results)}\n\n${text}`);
  progress(`\nwritten to ${json}`);
}

async function compareWithGoals(directory: string): Promise<void> {
  const started = performance.now();
  progress('starting the upstream, the bare hop, PostgreSQL and the gateway');
  const cast = await startCast(directory);
  const measured = await measure(cast, ratioIsKnown);
  const decisions = judge(measured);
  tell(measured, started, { decisions }, renderDecisions(decisions));
  process.exitCode = decisions.every(({ met }) => met) ? 0 : 1;
}

async function compareWithRevision(directory: string, revision: string): Promise<void> {
  const started = performance.now();
  progress(`starting the bare hop, the gateway of ${revision} and this one, each with its PostgreSQL`);
  const cast = await startCastAgainst(directory, revision);
  const measured = await measure(cast, verdictIsKnown);
  const answer = guard({ ...measured.bodies, ...(measured.streams && { streams: measured.streams }) });
  tell(measured, started, { commit: cast.commit, answer }, renderGuard(cast.commit, answer));
  process.exitCode = exitCodeOf(answer);
}

await inBenchDirectory((directory) =>
  against === undefined ? compareWithGoals(directory) : compareWithRevision(directory, against),
);
