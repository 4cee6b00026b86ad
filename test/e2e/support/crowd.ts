/**
 * A crowd of callers of models of different prices, in all sizes, streamed or not, who remember the outcome of
 * every request, so that the ledger can be compared with what callers and upstream saw.
 */
import assert from 'node:assert/strict';
import type { Database } from '../../../engine/base/store/database.ts';
import { makeToken } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  type Exchange,
  message,
  messageEvents,
  type Script,
} from '../../support/model-provider/scripted-upstream.ts';
import { randomOf } from '../../support/random.ts';
import { IS_DEEP } from '../../support/times.ts';
import { bearer, messagesBody, send } from './client.ts';
import { ledgerRows } from './state.ts';

/** Models by id with the price of a token of output, in nano-USD; input is free. */
const NANO_USD_PER_TOKEN: Readonly<Record<string, number>> = { small: 1000, middle: 2000, large: 5000 };
const MODELS = Object.keys(NANO_USD_PER_TOKEN);
const SIZES = 9;
/** A request is known by its number, and its size in tokens is a multiple of this plus the number. */
const STEP = 100_000;

/** The `models` and `token_groups` of gateway.yaml for a crowd. */
export const CROWD_MODELS = {
  models: MODELS.map((id) => ({
    id,
    context_window: (SIZES + 1) * STEP,
    max_output_tokens: (SIZES + 1) * STEP,
    pricing: { input: 0, output: NANO_USD_PER_TOKEN[id]! / 1000, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 },
  })),
  token_groups: [{ name: 'all', models: ['*'] }],
};

/** The most that one request of a crowd can cost, in nano-USD. */
export const MOST_EXPENSIVE_NANO_USD = (SIZES + 1) * STEP * Math.max(...Object.values(NANO_USD_PER_TOKEN));

/** A client that sends one request after the other. */
export interface Caller {
  readonly user: string;
  readonly token: string;
}

/**
 * A caller's outcome: everything, a rejection for lack of money or for too many requests, an error of the gateway,
 * nothing whole, or no connection at all.
 */
type Outcome = 'served' | 'refused' | 'too many' | 'unavailable' | 'broken' | 'unreachable';

const FAILED: ReadonlySet<Outcome> = new Set(['unavailable', 'broken', 'unreachable']);
/** Outcomes of requests that were certainly not forwarded. */
const KEPT_BACK: ReadonlySet<Outcome> = new Set(['refused', 'too many', 'unavailable']);

interface Sent {
  readonly number: number;
  readonly user: string;
  readonly model: string;
  readonly cost_nano_usd: number;
  /** Of the gateway that got the request. */
  readonly url: string;
  is_open: boolean;
  outcome: Outcome;
}

/** The callers of so many clients: a fifth for the first of them, who has more to do than may be spent. */
export function peopleOf(callers: number, people: number): string[] {
  const number = (index: number) => (index < callers / 5 ? 0 : index % people);
  return Array.from({ length: callers }, (_, index) => `user-${number(index)}@example.com`);
}

/** Makes callers, each with a token of their own. */
export async function makeCallers(database: Database, users: readonly string[], team: string): Promise<Caller[]> {
  const make = async (user: string) => ({ user, token: await makeToken(database, { user, team }) });
  return Promise.all(users.map(make));
}

/** The share of its requested output that a request gets, from a token to 0.99; the same on every call. */
function outputOf(max_tokens: number): number {
  // A count of 0 for a response with text would not be trusted.
  return Math.max(1, Math.floor((max_tokens * ((max_tokens * 7919) % 100)) / 100));
}

/** Longest time to a response and between two events of a stream. */
const THINKING_MS = IS_DEEP ? 1500 : 300;
const TALKING_MS = IS_DEEP ? 40 : 10;
/** Longest wait of a rejected client before it retries. */
const REFLECTING_MS = IS_DEEP ? 1000 : 300;

/** Passes the time of a provider or a caller, by a random number. */
const pass = (most_ms: number, random: () => number) =>
  new Promise((resolve) => setTimeout(resolve, random() * most_ms));

let blocked: Promise<void> | undefined;

/** Silences the upstream until the returned function is called. */
export function holdAnswers(): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  blocked = promise;
  return () => {
    blocked = undefined;
    resolve();
  };
}

/** A slow upstream, so that many requests are in flight, which reports the number of the request as its input. */
export const answerCrowd: Script = async (exchange: Exchange) => {
  const { max_tokens, stream } = JSON.parse(exchange.received.body.toString());
  const usage = { input_tokens: max_tokens % STEP, output_tokens: outputOf(max_tokens) };
  const random = randomOf(`answer ${usage.input_tokens}`);
  await pass(THINKING_MS, random);
  await blocked;
  if (!stream) return answerJson(message(usage))(exchange);
  exchange.res.writeHead(200, EVENT_STREAM as string[]);
  for (const event of messageEvents(['Hello.'], usage)) {
    exchange.res.write(event);
    await pass(TALKING_MS, random);
  }
  exchange.res.end();
};

/** The numbers of the requests that an upstream saw. */
export function numbersSeen(requests: readonly { readonly body: Buffer }[]): number[] {
  return requests.map(({ body }) => JSON.parse(body.toString()).max_tokens % STEP);
}

/** The requests of a crowd, and their outcomes. */
export class Crowd {
  readonly sent: Sent[] = [];
  readonly #urls: readonly string[];
  /** The wait of a client after an error before it retries. */
  repaired: Promise<void> = Promise.resolve();
  #done = 0;

  constructor(urls: readonly string[]) {
    this.#urls = urls;
  }

  /** How many requests had one of some outcomes. */
  count(...outcomes: Outcome[]): number {
    return this.sent.filter(({ outcome }) => outcomes.includes(outcome)).length;
  }

  /** How many requests were served, or rejected for lack of money, so far. */
  get done(): number {
    return this.#done;
  }

  /** Numbers of the requests at a gateway without a response yet. */
  openAt(url: string): number[] {
    return this.sent.filter((one) => one.is_open && one.url === url).map(({ number }) => number);
  }

  /** Sends one request and records its outcome. */
  async ask(caller: Caller, url: string): Promise<Outcome> {
    const number = this.sent.length + 1;
    assert.ok(number < STEP, 'a request number has five digits');
    const model = MODELS[number % MODELS.length]!;
    const max_tokens = (1 + (number % SIZES)) * STEP + number;
    const cost_nano_usd = outputOf(max_tokens) * NANO_USD_PER_TOKEN[model]!;
    const sent: Sent = { number, user: caller.user, model, cost_nano_usd, url, is_open: true, outcome: 'broken' };
    this.sent.push(sent);
    const stream = number % 2 === 0;
    const sending = { headers: bearer(caller.token), body: messagesBody({ model, max_tokens, stream }) };
    try {
      const { status, text } = await send(url, sending);
      if (status === 200) sent.outcome = stream && !text.includes('message_stop') ? 'broken' : 'served';
      else if (status === 429) sent.outcome = text.includes('spend_limit_exceeded') ? 'refused' : 'too many';
      else if (status === 503) sent.outcome = 'unavailable';
      else assert.fail(`status ${status}: ${text}`);
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') sent.outcome = 'unreachable';
    }
    sent.is_open = false;
    if (sent.outcome === 'served' || sent.outcome === 'refused') this.#done++;
    return sent.outcome;
  }

  /**
   * Lets every caller send one request after the other, to the gateways in turn, until so many requests are done and
   * `meanwhile` is over.
   */
  async run(callers: readonly Caller[], requests: number, meanwhile: Promise<void> = Promise.resolve()): Promise<void> {
    let is_over = false;
    const over = meanwhile.finally(() => {
      is_over = true;
    });
    const persist = async (caller: Caller, index: number) => {
      const random = randomOf(`caller ${index}`);
      for (let turn = index; !is_over || this.done < requests; turn++) {
        const outcome = await this.ask(caller, this.#urls[turn % this.#urls.length]!);
        // Some go on, so that there is always a client when a gateway or the database goes or comes.
        if (FAILED.has(outcome) && index % (IS_DEEP ? 25 : 5) !== 0) await this.repaired;
        if (outcome === 'refused' || outcome === 'too many') await pass(REFLECTING_MS, random);
      }
    };
    await Promise.all([over, ...callers.map(persist)]);
  }
}

/**
 * Compares the ledger with callers and the upstream: a forwarded request has exactly one row, a rejected one
 * has none, and every cost is the upstream's usage, or an estimate where the gateway did not live to hear the end.
 * @returns how many rows are estimates.
 */
export async function assertBooks(database: Database, crowd: Crowd, seen: readonly number[]): Promise<number> {
  // What a gateway had leased that died with its database has no owner.
  const rows = (await ledgerRows(database)).filter(({ request_id }) => !request_id.startsWith('lease '));
  assert.equal(new Set(rows.map(({ request_id }) => request_id)).size, rows.length, 'no request has two rows');
  const settled = new Map(rows.filter((row) => row.input_tokens > 0).map((row) => [row.input_tokens, row]));
  const estimates = rows.filter((row) => row.input_tokens === 0);
  assert.equal(settled.size + estimates.length, rows.length, 'no request is settled twice');
  const was_seen = new Set(seen);
  assert.equal(was_seen.size, seen.length, 'no request was forwarded twice');

  for (const { number, user, model, outcome, cost_nano_usd } of crowd.sent) {
    const what = `request ${number} of ${user}, which was ${outcome}`;
    if (outcome === 'served') assert.ok(was_seen.has(number), `${what}, was not forwarded`);
    if (KEPT_BACK.has(outcome)) assert.ok(!was_seen.has(number), `${what}, was forwarded`);
    const row = settled.get(number);
    if (row === undefined) continue;
    assert.ok(was_seen.has(number), `${what}, was not forwarded and has a row`);
    assert.deepEqual([row.user_email, row.model, row.cost_nano_usd], [user, model, cost_nano_usd], what);
  }

  // An estimate doesn't say which request of the caller it was, only whose.
  const people = Map.groupBy(crowd.sent, ({ user }) => user);
  for (const [user, sent] of people) {
    const unsettled = sent.filter(({ number }) => !settled.has(number));
    const [forwarded, others] = [true, false].map((yes) =>
      unsettled.filter(({ number }) => was_seen.has(number) === yes),
    );
    const reserved = others!.filter(({ outcome }) => outcome === 'broken' || outcome === 'unavailable');
    const [least, most] = [forwarded!.length, forwarded!.length + reserved.length];
    const found = estimates.filter((row) => row.user_email === user);
    assert.ok(
      found.length >= least,
      `${least} requests of ${user} were forwarded without an end; rows: ${found.length}`,
    );
    assert.ok(found.length <= most, `at most ${most} requests of ${user} can be estimates; rows: ${found.length}`);
    for (const { cost_nano_usd } of found) assert.ok(cost_nano_usd > 0, 'a request with an unknown end is not free');
  }
  assert.ok(rows.every(({ user_email }) => people.has(user_email)));
  return estimates.length;
}
