/**
 * One gateway in front of upstreams that fail, each case with a model and a session of its own, and upstreams of its own where
 * a failure counts against an upstream as a whole, so that all can be played at once and none sees what another left behind.
 */
import assert from 'node:assert/strict';
import { bootGateway, type ConfigSections, serverSection, type TestGateway } from '../../support/gateway.ts';
import { type FaultServer, REFUSING, servedBy, startFaultServer } from '../../support/model-provider/fault-server.ts';
import { until } from '../../support/until.ts';
import { type Case, type Expectation, type Placed, place, read } from '../../upstreams/attempts/cases.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { open, type Response, readAll } from '../support/client.ts';
import { type MovableClock, movableClock } from '../support/movable-clock.ts';
import { askBody, PRICING, sending } from '../support/nine.ts';
import { checkBooks, readBooks } from './books.ts';
import { errorsIn } from './several.ts';

/** The running surroundings. */
export interface Scene {
  /** Plays cases at once, slow ones one after the other, and compares their outcomes. @returns the differences */
  play(cases: readonly Case[]): Promise<string[]>;
  close(): Promise<void>;
}

interface Surroundings {
  readonly gateway: TestGateway;
  readonly faults: FaultServer;
  readonly clock: MovableClock;
}

/** Every limit of a silence; no test waits for it. */
const SILENCE_SECONDS = 60;
const TIMEOUTS = {
  first_byte_seconds: SILENCE_SECONDS,
  non_streaming_first_byte_seconds: SILENCE_SECONDS,
  idle_seconds: SILENCE_SECONDS,
};

function upstreamEntry(faults: FaultServer, name: string, { play, speaks }: Case['upstreams'][number]): object {
  return {
    name,
    // Cases that share an upstream must not use each other's retries.
    retry_budget: { min: 1000 },
    base_url: play === 'refuses' ? `${REFUSING}/${name}` : faults.url(name),
    ...(speaks === 'messages' ? { type: 'vendor' } : { type: 'compat', protocols: [speaks] }),
    api_key_env: 'TEST_UPSTREAM_KEY',
  };
}

function sections(faults: FaultServer, cases: readonly Placed[], more: ConfigSections): ConfigSections {
  const { routing = {}, spend_limits = {}, ...rest } = more as Record<string, object>;
  const entries = new Map<string, object>();
  const routes = new Map<string, readonly string[]>();
  for (const { names, upstreams, model } of cases) {
    routes.set(model.replace(/\d+$/, '*'), names);
    for (const [at, upstream] of upstreams.entries())
      entries.set(names[at]!, upstreamEntry(faults, names[at]!, upstream));
  }
  return {
    server: serverSection({ timeouts: TIMEOUTS }),
    upstreams: [...entries.values()],
    models: cases.map(({ model }) => ({
      id: model,
      context_window: 200_000,
      max_output_tokens: 64_000,
      pricing: PRICING,
    })),
    token_groups: [{ name: 'all', models: ['*'] }],
    routing: {
      default_upstream: cases[0]!.names[0]!,
      rules: [...routes].map(([models, upstreams]) => ({ models: [models], upstreams })),
      ...routing,
    },
    spend_limits: {
      on_exceeded: 'deny',
      rules: ['model', ['model', 'upstream']].map((scope) => ({
        name: String(scope),
        scope,
        window: 'day',
        limit_usd: 1_000_000,
      })),
      ...spend_limits,
    },
    ...rest,
  };
}

/** Boots a gateway for these cases. `more`: sections of gateway.yaml. */
export async function openScene(cases: readonly Case[], more: ConfigSections = {}): Promise<Scene> {
  const placed = place(cases);
  const faults = await startFaultServer();
  for (const { names, upstreams, model } of placed.values())
    for (const [at, { play }] of upstreams.entries())
      if (play !== 'refuses') faults.plays.set(`${names[at]} ${model}`, play);
  const { reserve } = (more.spend_limits ?? {}) as { reserve?: string };
  const worst_case = reserve === 'worst_case';
  const config = sections(faults, [...placed.values()], more);
  const clock = movableClock();
  const gateway = await bootGateway({ upstream_url: 'http://127.0.0.1:1', config, clock }).catch(async (error) => {
    await faults.close();
    throw error;
  });
  return {
    play: (some) =>
      playCases(
        { gateway, faults, clock },
        some.map((one) => placed.get(one)!),
        worst_case,
      ),
    async close() {
      await gateway.close();
      await faults.close();
    },
  };
}

async function ask({ gateway, faults, clock }: Surroundings, one: Placed, { attempts, answer: response }: Expectation) {
  const { spoken, model, stream, headers = [], takes_time } = one;
  const body = askBody(spoken, model, 'Say hello.', stream ? { stream: true } : {});
  const asked = sending(spoken, gateway.token, JSON.stringify(body));
  const session = ['x-claude-code-session-id', `session-${model}`];
  const { head } = open(gateway.url, { ...asked, headers: [...asked.headers, ...session, ...headers] });
  let is_over = false;
  const got = head.then(readAll).finally(() => {
    is_over = true;
  });
  if (!takes_time) return await got;
  const passTime = () => clock.advance((SILENCE_SECONDS + 1) * 1000);
  for (const { upstream, outcome } of attempts) {
    await until(`${upstream} is asked`, () => faults.requests(upstream, model).length > 0);
    if (outcome === 'unknown') passTime();
  }
  if (response === 'broken') {
    await head;
    await until('no client waits for the rest any more', () => is_over || void passTime());
  }
  return await got;
}

function checkAnswer(one: Placed, { attempts, status, answer: response }: Expectation, got: Response): void {
  const why = `${got.status} ${got.text.slice(0, 400)}`;
  assert.equal(got.status, status, why);
  const { spoken, stream, upstreams, names } = one;
  if (response === 'whole' || response === 'broken') {
    const said = textIn(spoken, stream ? eventsIn(got.text) : got.json());
    const whole = servedBy(attempts.at(-1)!.upstream);
    if (response === 'whole') assert.equal(said, whole, why);
    else assert.ok(whole.startsWith(said) && said !== whole, why);
    if (stream) assert.equal(errorsIn(got.text), response === 'broken' ? 1 : 0, why);
    return;
  }
  if (response === 'error') {
    assert.equal(errorsIn(got.text), 1, why);
    const others = eventsIn(got.text).filter(({ data }) => data.error === undefined);
    assert.equal(textIn(spoken, others), '', why);
    return;
  }
  assert.match(String(got.headers['content-type']), /^application\/json/, why);
  const { error } = got.json();
  assert.equal(typeof error.message, 'string', why);
  assert.equal(got.json().type, spoken === 'messages' ? 'error' : undefined, why);
  const last = attempts.at(-1)!;
  const { speaks } = upstreams[names.indexOf(last.upstream)]!;
  if (response === 'theirs') assert.match(error.message, /^(Refused with|You exceeded)/, why);
  if (response === 'theirs' && speaks === spoken) assert.equal(got.headers['request-id'], 'req_fault', why);
  if (response === 'ours') {
    assert.doesNotMatch(got.text, /127\.0\.0\.1|<h1>|Refused with/, 'neither addresses nor pages leak');
    assert.notEqual(got.headers['request-id'], 'req_fault');
    const tried = new Set(attempts.map(({ upstream }) => upstream)).size;
    if (tried > 1) assert.match(error.message, new RegExp(`\\b${tried}\\b`), 'it says how many were tried');
  }
}

/** Sends the request of a case, and compares response and upstreams' requests. @returns the identifier of the request */
async function askAndCheck(surroundings: Surroundings, one: Placed, expected: Expectation): Promise<string> {
  const got = await ask(surroundings, one, expected);
  checkAnswer(one, expected, got);
  for (const name of one.names) {
    const sent = expected.attempts.filter(({ upstream, outcome }) => upstream === name && outcome !== 'not_sent');
    const reached = surroundings.faults.requests(name, one.model);
    assert.equal(reached.length, sent.length, `requests that reached ${name}`);
  }
  return String(got.headers['x-gateway-request-id']);
}

async function playCases(surroundings: Surroundings, cases: readonly Placed[], worst_case: boolean): Promise<string[]> {
  const { gateway, faults } = surroundings;
  let before: Promise<unknown> = Promise.resolve();
  const asked = await Promise.allSettled(
    cases.map(async (one) => {
      const expected = read(one);
      const asking = (one.takes_time ? before : Promise.resolve()).then(() => askAndCheck(surroundings, one, expected));
      before = asking.catch(() => {});
      return { one, expected, request_id: await asking };
    }),
  );
  const answered = asked.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const wrong = asked.flatMap((result, at) =>
    result.status === 'rejected' ? [`${cases[at]!.name}: ${result.reason.message}`] : [],
  );
  const ids = answered.map(({ request_id }) => request_id);
  const books = await readBooks(
    gateway,
    ids,
    answered.map(({ one }) => one),
  );
  for (const { one, expected, request_id } of answered) {
    try {
      checkBooks(books, one, expected, { request_id, worst_case });
    } catch (error) {
      wrong.push(`${one.name}: ${(error as Error).message}`);
    }
  }
  return [...wrong, ...faults.refused];
}
