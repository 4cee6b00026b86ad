/** `npm run bench`: see README.md beside this file. */
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';
import { type Cast, startCast, startCastAgainst } from './cast.ts';
import { measureDatabase, renderDatabase } from './database.ts';
import {
  type BodyRound,
  COLD_REQUESTS,
  type Enough,
  FULL,
  measureBody,
  measureCold,
  measureStreams,
  QUICK,
  type StreamRound,
} from './measure.ts';
import { isOfStreams, readOptions } from './options.ts';
import { inBenchDirectory } from './processes.ts';
import { exitCodeOf, guard, renderGuard, verdictIsKnown } from './verdicts/against.ts';
import { evaluate, ratioIsKnown } from './verdicts/goals.ts';
import { type Results, renderDecisions, renderReport } from './verdicts/report.ts';

const { parts, quick, json, against, database } = readOptions();
const effort = quick ? QUICK : FULL;
const progress = (text: string) => process.stderr.write(`${text}\n`);

type Figures = Pick<Results, 'bodies' | 'streams' | 'cold'>;

async function measure({ servers, load }: Cast, enough: Enough<BodyRound | StreamRound>): Promise<Figures> {
  progress(`measuring the first ${COLD_REQUESTS} requests`);
  const cold = await measureCold(servers, load);
  const bodies: Results['bodies'] = {};
  const streams: Results['streams'] = {};
  // Streams first, because a process that has relayed megabytes keeps their memory.
  for (const part of parts.toSorted((a, b) => Number(isOfStreams(b)) - Number(isOfStreams(a)))) {
    progress(`warming up for ${part}, and measuring`);
    if (isOfStreams(part)) streams[part] = await measureStreams(servers, load, part, effort, enough);
    else bodies[part] = await measureBody(servers, load, part, effort, enough);
  }
  return { bodies, streams, cold };
}

/** Prints the measurements and records them, with the decisions about them. */
function print(measured: Figures, started: number, decided: object, text: string): void {
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
  const decisions = evaluate(measured);
  let text = renderDecisions(decisions);
  if (database) {
    progress('measuring what a request costs PostgreSQL');
    const cost = await measureDatabase(cast.servers.at(-1)!, cast.load, effort);
    text = `${renderDatabase(cost)}\n\n${text}`;
    print(measured, started, { decisions, database: cost }, text);
  } else print(measured, started, { decisions }, text);
  process.exitCode = decisions.every(({ met }) => met) ? 0 : 1;
}

async function compareWithRevision(directory: string, revision: string): Promise<void> {
  const started = performance.now();
  progress(`starting the bare hop, the gateway of ${revision} and this one, each with its PostgreSQL`);
  const cast = await startCastAgainst(directory, revision);
  const measured = await measure(cast, verdictIsKnown);
  const response = guard({ ...measured.bodies, ...measured.streams });
  print(measured, started, { commit: cast.commit, answer: response }, renderGuard(cast.commit, response));
  process.exitCode = exitCodeOf(response);
}

await inBenchDirectory((directory) =>
  against === undefined ? compareWithGoals(directory) : compareWithRevision(directory, against),
);
