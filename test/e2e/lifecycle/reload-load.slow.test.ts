/** Many reloads in the middle of streams: no request is lost, and nothing of a replaced plan stays in memory. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { before, test } from 'node:test';
import type { StageDefinition } from '../../../engine/api.ts';
import { startGateway } from '../../../engine/edge/gateway/start-gateway.ts';
import { stages } from '../../../stages/index.ts';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig, makeToken, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import { bytesInUse } from '../../support/heap.ts';
import {
  EVENT_STREAM,
  type Exchange,
  messageEvents,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { quietLog } from '../../support/store.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { ledgerRows, nothingReserved } from '../support/state.ts';

/** Reloads after which everything that is made only once has been made. */
const WARM_UP = 5;
const RELOADS = WARM_UP + times(15);
/** Streams that are in the middle when the configuration is replaced. */
const STREAMS = 4;
/** So many that a replaced configuration would show in the heap: those after the warm-up occupy 4 MB or more. */
const MODELS = 300;
const HEAP_GROWTH_MAX_BYTES = 2_500_000;

const EVENTS = messageEvents(Array.from({ length: 20 }, (_, i) => `word ${i} `));
const HALF = EVENTS.length / 2;

/** Ends streams; each reload has one of its own. */
let reloaded = Promise.withResolvers<void>();

async function answerInTwoParts({ res }: Exchange): Promise<void> {
  res.writeHead(200, EVENT_STREAM as string[]);
  res.write(EVENTS.slice(0, HALF).join(''));
  await reloaded.promise;
  res.end(EVENTS.slice(HALF).join(''));
}

let config: Awaited<ReturnType<typeof writeConfig>>;
let token: string;
let stages_per_plan: number;
/** The hooks of every stage ever made, with the plan they belong to: the configuration it was made from. */
const made: { readonly hooks: WeakRef<object>; readonly config: WeakRef<object> }[] = [];

function remembered(definition: StageDefinition): StageDefinition {
  return {
    ...definition,
    create(options, services) {
      const hooks = definition.create(options, services);
      made.push({ hooks: new WeakRef(hooks), config: new WeakRef(services.config) });
      return hooks;
    },
  };
}

/** The configuration of a reload: every other one has the other upstream, and each has models of its own. */
function configOf(reload: number): string {
  const [first] = (gatewayConfig(upstreams[reload % 2]!.url) as { upstreams: object[] }).upstreams;
  const { models } = gatewayConfig('') as { models: readonly object[] };
  const pricing = { input: 1, output: 1 };
  const more = Array.from({ length: MODELS }, (_, i) => ({ id: `model-${reload}-${i}`, pricing }));
  return JSON.stringify(gatewayConfig('', { upstreams: [first], models: [...models, ...more] }), null, 1);
}

const upstreams = [1, 2].map(() => use(() => startUpstream(answerInTwoParts)));
const database = use(createTestDatabase, ({ drop }) => drop());
before(async () => {
  config = await writeConfig({});
  await writeFile(config.config_file, configOf(0));
});
const gateway = use(() =>
  startGateway({
    config_file: config.config_file,
    stages: stages.map(remembered),
    env: { ...process.env, TEST_UPSTREAM_KEY: UPSTREAM_KEY, TEST_DATABASE_URL: database.url },
    log: quietLog,
  }),
);
before(async () => {
  stages_per_plan = made.length;
  await until('the database is ready', async () => (await gateway.database.check()).ok);
  token = await makeToken(gateway.database);
});

test('reloads in the middle of streams lose no request and leave nothing behind', async () => {
  const sending = { headers: bearer(token), body: messagesBody({ stream: true }) };
  const stream = () => send(gateway.url, sending);
  let complete = 0;
  let heap_before = 0;
  for (let reload = 1; reload <= RELOADS; reload++) {
    reloaded = Promise.withResolvers();
    const in_force = upstreams[(reload - 1) % 2]!;
    for (const { requests } of upstreams) requests.length = 0;
    const begun = Array.from({ length: STREAMS }, stream);
    await in_force.arrived(STREAMS);
    await writeFile(config.config_file, configOf(reload));
    const reloading = gateway.reload();
    // Which of the two applies is left to chance.
    const meanwhile = stream();
    await reloading;
    reloaded.resolve();
    for (const { status, text } of await Promise.all([...begun, meanwhile])) {
      assert.deepEqual([status, text], [200, EVENTS.join('')]);
      complete++;
    }
    if (reload === WARM_UP) heap_before = (await bytesInUse()).heap;
  }
  const { heap: heap_after } = await bytesInUse();

  await nothingReserved(gateway.database);
  const rows = await ledgerRows(gateway.database);
  assert.equal(rows.length, complete, 'each request has its ledger row');
  assert.equal(new Set(rows.map(({ cost_nano_usd }) => cost_nano_usd)).size, 1, 'at the price all of them had');

  assert.equal(made.length, stages_per_plan * (RELOADS + 1), 'every reload made a plan');
  await until('no replaced plan is left', async () => {
    await bytesInUse();
    const configs = new Set(made.flatMap(({ config }) => config.deref() ?? []));
    const hooks = made.flatMap(({ hooks }) => hooks.deref() ?? []);
    return configs.size === 1 && hooks.length === stages_per_plan;
  });
  const growth = heap_after - heap_before;
  assert.ok(growth < HEAP_GROWTH_MAX_BYTES, `the heap has grown by ${growth} bytes`);
});
