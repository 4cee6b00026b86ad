/**
 * The week of traffic of the demo: invented users, real requests. They pass the gateway of gateway.yaml and reach the demo
 * upstreams, on a simulated clock; nothing is written past the gateway.
 * @module
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import type { ExportedLog } from '../../../engine/domain/telemetry/export/exports.ts';
import { type RunningGateway, startGateway } from '../../../engine/edge/gateway/start-gateway.ts';
import { stages } from '../../../stages/index.ts';
import type { Conduct, DemoUpstream } from '../upstream.ts';
import { type MovableClock, movableClock } from './clock.ts';
import { type Deeds, openDeeds, WEEK_PROJECT } from './deeds.ts';
import { MEMBERS, type Member } from './members.ts';
import { type Ask, type Deed, type Outage, type Plan, planWeek } from './plan.ts';
import { createRandom } from './random.ts';

/** The parts that play a week. */
export interface WeekOptions {
  readonly config_file: string;
  readonly config: GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly log: ExportedLog;
  openUpstream(base_url: string, conduct: Conduct): Promise<DemoUpstream>;
}

/** Tokens per word, so that costs are realistic. */
const TOKENS_PER_WORD = { input: 5, output: 40 };
const MAX_TOKENS = 16_000;
/** The longest time until a gateway applies a change. */
const NOTICED_MS = 25;
/** The most concurrent requests, and the longest planned distance between them. */
const AT_ONCE = 5;
const TOGETHER_MS = 15 * 60_000;
const SYSTEM_WORDS = 900;
const TURN_WORDS = 120;

/** Whether a configuration fits the week. */
export function canHaveWeek({ models, database }: GatewayConfig): boolean {
  const ids = models.map(({ id }) => id);
  return database.embedded !== undefined && ['demo-large', 'demo-small'].every((id) => ids.includes(id));
}

/** Whether the database is empty, and whether it has the week. Raises store_unavailable. */
export async function seeWeek(database: Database): Promise<{ readonly is_new: boolean; readonly is_there: boolean }> {
  const [row] = await database.query<{ is_new: boolean; is_there: boolean }>(
    'demo_week',
    `select not exists (select from audit_log) and not exists (select from ledger) as is_new,
       exists (select from access_tokens where project = $1) as is_there`,
    [WEEK_PROJECT],
  );
  return row!;
}

/** Plays the week before now. Some of its requests are rejected on purpose. Raises StartError. */
export async function playWeek({ config_file, config, env, log, openUpstream }: WeekOptions): Promise<void> {
  const ends = Date.now();
  const { begins, moments, outages } = planWeek(ends);
  const clock = movableClock(begins);
  const upstreams: DemoUpstream[] = [];
  let gateway: RunningGateway | undefined;
  try {
    for (const { name, base_url } of config.upstreams) {
      upstreams.push(await openUpstream(base_url, conductOf(clock, name === 'demo' ? outages : [])));
    }
    gateway = await startGateway({ config_file, stages, env, log, clock });
    const deeds = await openDeeds({ config, database: gateway.database, clock });
    for (const together of togetherIn(moments)) {
      clock.moveTo(together[0]!.at);
      // Long responses advanced the clock past the end of the week.
      if (clock.now() > ends) break;
      await Promise.all(together.map((moment) => act(gateway!, moment, deeds)));
    }
  } finally {
    await gateway?.close();
    for (const upstream of upstreams) await upstream.close();
  }
}

/** Sends distant requests one by one, and close ones of different users concurrently, to save time. */
function togetherIn(moments: Plan['moments']): Plan['moments'][] {
  const groups: (Ask | Deed)[][] = [];
  for (const moment of moments) {
    const last = groups.at(-1);
    const fits =
      last !== undefined &&
      last.length < AT_ONCE &&
      [...last, moment].every(({ kind }) => kind === 'ask') &&
      moment.at - last[0]!.at < TOGETHER_MS &&
      last.every((other) => other.kind === 'ask' && moment.kind === 'ask' && other.who !== moment.who);
    if (fits) last.push(moment);
    else groups.push([moment]);
  }
  return groups;
}

async function act({ url }: RunningGateway, moment: Ask | Deed, deeds: Deeds): Promise<void> {
  if (moment.kind === 'ask') return ask(url, moment, deeds);
  await deeds.do(moment.deed);
  await pause(NOTICED_MS);
}

function conductOf(clock: MovableClock, outages: readonly Outage[]): Conduct {
  const random = createRandom(7);
  return {
    now: clock.now,
    // Advances the clock without waiting.
    pause: async (milliseconds) => clock.moveOn(milliseconds),
    thinking_ms: () => 250 + random.between(0, 900) + (random.next() < 0.05 ? 4000 : 0),
    tokens_per_word: TOKENS_PER_WORD,
    // As long as the message, so that responses differ in length and cost.
    answer: (question) => `You said: "${question}". This response belongs to a week of made-up traffic.`,
    outage() {
      const outage = outages.find(({ from, to }) => from <= clock.now() && clock.now() < to);
      return outage?.failure ?? (random.next() < 0.006 ? '500' : undefined);
    },
  };
}

async function ask(url: string, request: Ask, deeds: Deeds): Promise<void> {
  const member: Member = request.who === 'old laptop' ? MEMBERS.erik : MEMBERS[request.who];
  const { model, stream, session } = request;
  const in_chat = member.api === 'chat';
  const headers = {
    authorization: `Bearer ${deeds.tokenOf(request.who)}`,
    'content-type': 'application/json',
    'user-agent': member.client,
    'x-session-id': session,
  };
  const talk = { model, max_tokens: MAX_TOKENS, stream, messages: messagesOf(request, in_chat) };
  const text = `You help the team ${member.team}. ${words('rule', SYSTEM_WORDS)}`;
  const system = [{ type: 'text', text, cache_control: { type: 'ephemeral' } }];
  const body = JSON.stringify(in_chat ? talk : { ...talk, system });
  const path = in_chat ? '/v1/chat/completions' : '/v1/messages';
  // A cut stream is a response, too.
  await fetch(url + path, { method: 'POST', headers, body }).then(
    (response) => response.text().catch(() => ''),
    () => '',
  );
}

function messagesOf({ turn, words: count, session, fail }: Ask, in_chat: boolean): object[] {
  const marker = { cache_control: { type: 'ephemeral' } };
  const past = Array.from({ length: turn }, (_, i) => {
    const text = `${session} ${i} ${words('word', TURN_WORDS)}`;
    const content = in_chat ? text : [{ type: 'text', text, ...(i === turn - 1 && marker) }];
    return [
      { role: 'user', content },
      { role: 'assistant', content: 'Done.' },
    ];
  }).flat();
  return [...past, { role: 'user', content: `${fail === undefined ? '' : `fail ${fail} `}${words('please', count)}` }];
}

function words(word: string, count: number): string {
  return `${word} `.repeat(count).trimEnd();
}
