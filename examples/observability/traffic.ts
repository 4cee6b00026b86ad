/**
 * Sample traffic: three users of two teams, an intern, and a program with a wrong token. One upstream has regular outages.
 * @module
 */
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock } from '../../engine/base/kit/clock.ts';
import { createToken } from '../../engine/domain/identity/tokens/tokens.ts';
import type { RunningGateway } from '../../engine/edge/gateway/start-gateway.ts';

/** A caller and its requests. */
interface Caller {
  readonly user: string;
  readonly group: string;
  readonly team?: string;
  readonly models: readonly string[];
  /** Requests a one-hour prompt cache. */
  readonly hour?: boolean;
  /** Milliseconds between requests. */
  readonly every_ms: number;
}

const CALLERS: readonly Caller[] = [
  { user: 'ana@example.com', group: 'staff', team: 'search', models: ['demo-large'], hour: true, every_ms: 1500 },
  { user: 'bo@example.com', group: 'staff', team: 'search', models: ['demo-large', 'demo-small'], every_ms: 1200 },
  { user: 'cy@example.com', group: 'staff', team: 'platform', models: ['demo-small', 'demo-large'], every_ms: 700 },
  { user: 'ida@example.com', group: 'interns', models: ['demo-small', 'demo-small', 'demo-large'], every_ms: 2000 },
];
/** The demo upstream caches prefixes of at least this many words. */
const LONG_PROMPT = Array.from({ length: 300 }, (_, i) => `word${i}`).join(' ');

function body(caller: Caller, n: number): string {
  const cache_control = { type: 'ephemeral', ...(caller.hour && { ttl: '1h' }) };
  // Every fortieth request gets an upstream failure.
  const question = n % 40 === 39 ? 'fail 500' : `Question ${n % 5}`;
  const model = caller.models[n % caller.models.length];
  return JSON.stringify({
    model,
    max_tokens: 60,
    stream: n % 2 === 0,
    system: [{ type: 'text', text: `You are ${model}. ${LONG_PROMPT}`, cache_control }],
    messages: [{ role: 'user', content: question }],
  });
}

async function ask(url: string, token: string, content: string): Promise<void> {
  const response = await fetch(`${url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': token, 'content-type': 'application/json' },
    body: content,
  });
  await response.arrayBuffer();
}

async function work(url: string, token: string, caller: Caller, signal: AbortSignal): Promise<void> {
  for (let n = 0; !signal.aborted; n++) {
    await ask(url, token, body(caller, n)).catch(() => undefined);
    await pause(caller.every_ms * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined);
  }
}

/** Starts the traffic; the returned function stops it. */
export async function startTraffic(gateway: RunningGateway): Promise<{ close(): Promise<void> }> {
  const stop = new AbortController();
  const actor = { kind: 'command', name: 'observability-example' } as const;
  const options = { database: gateway.database, clock: systemClock, actor };
  const working: Promise<void>[] = [];
  for (const caller of CALLERS) {
    const { user, group, team } = caller;
    const properties = { user, group, name: `example-${Date.now()}`, ...(team !== undefined && { team }) };
    const { token } = await createToken(options, properties);
    working.push(work(gateway.url, token, caller, stop.signal));
  }
  const stranger: Caller = { user: '', group: '', models: ['demo-small'], every_ms: 5000 };
  working.push(work(gateway.url, 'a-token-of-nobody', stranger, stop.signal));
  return {
    async close() {
      stop.abort();
      await Promise.all(working);
    },
  };
}
