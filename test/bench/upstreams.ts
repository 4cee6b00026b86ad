/**
 * What several upstreams cost while all are healthy: CPU time per request of a gateway with one upstream and of one with three
 * that share the sessions, in turn; before that, of the stage that finds the upstreams alone. `node test/bench/upstreams.ts
 * [--rounds 40] [--body 0.5k]`, `--rounds 0` for the stage alone; times in microseconds.
 * @module
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Facts, openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import resolveRoute from '../../stages/resolve-route.ts';
import type { BodyName } from './bodies.ts';
import type { RequestsJob, RequestsResult, Target } from './load/generator.ts';
import { type Child, inBenchDirectory, startChild, startGoverned } from './processes.ts';
import type { ProcessUsage } from './servers/process-usage.ts';
import { median, percentile } from './statistics.ts';

/** What three healthy upstreams may cost more than one. */
const GOAL_US = 3;
const CONNECTIONS = 32;
const WARM_UP_MS = 4000;
const ROUND_MS = 400;
/** Lets the ledger and the audit log be written within the round. */
const SETTLE_MS = 60;

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '40' }, body: { type: 'string', default: '0.5k' } },
});
const job = { body: values.body as BodyName, connections: CONNECTIONS, sessions: true } as const;

const STAGE_REQUESTS = 20_000;
const STAGE_ROUNDS = 9;

/** Runs `resolve-route` on requests whose route has so many upstreams, all healthy. @returns CPU time per request */
function stageWith(count: number): () => number {
  const [main] = stageConfig().upstreams;
  const upstreams = Array.from({ length: count }, (_, index) => {
    const name = `upstream-${index}`;
    return { ...main!, name, cache_pool: name, state_boundary: name };
  });
  const default_upstreams = upstreams.map(({ name }) => ({ upstream: name, order: 1, weight: 1 }));
  const stage = openStage(resolveRoute, {
    config: stageConfig({ upstreams, routing: { ...stageConfig().routing, default_upstreams } }),
  });
  const facts = (index: number): Facts => ({
    'request.id': 'req-1',
    'request.protocol': 'messages',
    'request.received_at': Date.parse('2026-03-10T12:00:00Z'),
    'request.model': 'coder-1',
    'request.max_tokens': 500,
    'request.input_tokens_estimate': 170,
    'request.input_tokens_max': 512,
    'request.cache.ttl': 'none',
    'request.session_key': `session-${index % CONNECTIONS}`,
    'principal.email': 'alice@example.com',
    'principal.groups': ['all'],
    'principal.token.group': 'all',
  });
  return () => {
    const requests = Array.from({ length: STAGE_REQUESTS }, (_, index) => stage.request({ facts: facts(index) }));
    const start = process.cpuUsage();
    for (const ctx of requests) stage.hooks.request!(ctx);
    const { user, system } = process.cpuUsage(start);
    return (user + system) / STAGE_REQUESTS;
  };
}

/** Least CPU time of a request at routes of one upstream and of three, in turn, so that both are compiled alike. */
function stageCpu(): [one: number, three: number] {
  const [one, three] = [stageWith(1), stageWith(3)];
  const rounds = Array.from({ length: STAGE_ROUNDS }, () => [one(), three()] as const);
  return [Math.min(...rounds.map(([us]) => us)), Math.min(...rounds.map(([, us]) => us))];
}

async function cpuPerRequest(gateway: Child<Target>, load: Child<object>, duration_ms: number): Promise<number> {
  const before = await gateway.ask<ProcessUsage>('usage');
  const { requests, failed } = await load.ask<RequestsResult>('requests', {
    ...gateway.ready,
    ...job,
    duration_ms,
  } satisfies RequestsJob);
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  if (failed > 0) throw new Error(`${failed} requests failed`);
  return ((await gateway.ask<ProcessUsage>('usage')).cpu_us - before.cpu_us) / requests;
}

async function measure(directory: string): Promise<void> {
  const { url } = (await startChild<{ url: string }>('servers/upstream.ts')).ready;
  const load = await startChild<object>('load/generator.ts');
  const start = (count: number) => {
    const own = join(directory, String(count));
    mkdirSync(own, { mode: 0o711 });
    return startGoverned({ upstream: url, directory: own, upstreams: count });
  };
  const gateways = [await start(1), await start(3)] as const;
  for (const gateway of gateways) await cpuPerRequest(gateway, load, WARM_UP_MS);
  const rounds: [number, number][] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    const found = [0, 0] as [number, number];
    for (const at of round % 2 === 0 ? [0, 1] : [1, 0]) found[at] = await cpuPerRequest(gateways[at]!, load, ROUND_MS);
    rounds.push(found);
  }
  const us = (value: number) => value.toFixed(1).padStart(8);
  const more = rounds.map(([one, three]) => three - one);
  console.log(`CPU us per request, ${job.body} body, ${rounds.length} rounds: median, and the least quarter`);
  for (const [at, name] of ['one upstream', 'three upstreams'].entries()) {
    const column = rounds.map((round) => round[at]!);
    console.log(`${name.padEnd(16)}${us(median(column))}${us(percentile(column, 0.25))}`);
  }
  console.log(`${'more'.padEnd(16)}${us(median(more))}`);
  const spread = `a quarter of the rounds below ${us(percentile(more, 0.25)).trim()}, a quarter above ${us(percentile(more, 0.75)).trim()}`;
  console.log(`goal: at most ${GOAL_US} more; ${spread}`);
}

const [alone, among] = stageCpu();
const cells = [alone, among, among - alone].map((us) => us.toFixed(2)).join('  ');
console.log(`resolve-route alone, with one upstream, with three, more: ${cells}`);
if (Number(values.rounds) === 0) process.exit();

await inBenchDirectory(measure);
