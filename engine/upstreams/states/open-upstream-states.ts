import { randomUUID } from 'node:crypto';
import type { UpstreamConfig } from '../../contract/config.ts';
import type { Drained } from '../../contract/forwarding.ts';
import type { Clock, Log } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import type { Database } from '../../store/database.ts';
import { DRAINED_CHANGED, listDrained, UPSTREAMS_CHANNEL } from './drained-upstreams.ts';
import { createTroubleKeeper } from './kept-troubles.ts';
import { createUpstreamStates, type LastingUpstreamStates, type Trouble } from './upstream-states.ts';

/** States of upstreams that know what administrators drained and what other replicas saw. */
export interface OpenUpstreamStates extends LastingUpstreamStates {
  /** Resolves when the list of drained upstreams was asked for the first time, whether that worked or not. */
  readonly attempted: Promise<void>;
  catchUp(): Promise<void>;
  close(): Promise<void>;
}

/** How often the list is read, for when an announcement gets lost. */
const POLL_MS = 3000;

/** Opens what is known of upstreams; needs no database yet, and goes by what it read last while that is away. */
export function openUpstreamStates(options: {
  readonly upstreams: readonly UpstreamConfig[];
  readonly database: Pick<Database, 'query' | 'listen'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
}): OpenUpstreamStates {
  const { upstreams, database, clock, log, every = everyInBackground } = options;
  const hints = createReplicaHints({ database, clock, log, heed: (trouble) => states.heed(trouble) });
  const kept = createTroubleKeeper({ database, clock, log, every });
  const onTrouble = (trouble: Trouble) => {
    hints.tell(trouble);
    kept.note(trouble);
  };
  const states = createUpstreamStates({ upstreams, clock, log, onTrouble, onRecovery: kept.end });
  let names = '';
  let is_closed = false;
  let reading: Promise<void> | undefined;

  function use(drained: ReadonlyMap<string, Drained>): void {
    states.setDrained(drained);
    const now = [...drained.keys()].join(', ');
    if (now !== names) log.info({ drained: [...drained.keys()] }, 'upstreams that get no new requests');
    names = now;
  }

  async function read(): Promise<void> {
    try {
      use(await listDrained(database));
    } catch (error) {
      log.debug({ err: error }, 'which upstreams are drained could not be read');
    }
  }

  const refresh = () => {
    if (is_closed) return Promise.resolve();
    reading ??= read().finally(() => {
      reading = undefined;
    });
    return reading;
  };

  const catchUp = async () => {
    // A reading that is under way may have begun too early.
    await reading;
    await refresh();
  };

  const hear = (payload: string) => {
    if (payload === DRAINED_CHANGED) void catchUp();
    else hints.hear(payload);
  };

  const listening = database
    .listen(UPSTREAMS_CHANNEL, hear, () => void refresh())
    .catch((error) => {
      log.warn({ err: error }, 'other replicas are not heard; drained upstreams take some seconds to be noticed');
    });
  const attempted = listening.then(refresh);
  const stop = every(POLL_MS, refresh);

  return {
    ...states,
    attempted,
    catchUp,
    async close() {
      is_closed = true;
      stop();
      hints.close();
      await Promise.all([kept.close(), reading]);
    },
  };
}

const KINDS: readonly unknown[] = ['open', 'unreachable', 'credential', 'limited'] satisfies Trouble['kind'][];
/** In the time between two messages, only the last word on each upstream and model is kept. */
const GAP_MS = 1000;
const TROUBLES_MAX = 12;
/** PostgreSQL takes 8000 bytes; `TROUBLES_MAX` of the longest are fewer. */
const TEXT_MAX = 100;
const PENDING_MAX = 200;

/** Tells other replicas what keeps requests from upstreams, and gives `heed` what they tell. Nothing depends on it. */
function createReplicaHints(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly heed: (trouble: Trouble) => void;
}) {
  const { database, clock, log, heed } = options;
  const self = randomUUID().slice(0, 8);
  const pending = new Map<string, Trouble>();
  let pause: ReturnType<Clock['after']> | undefined;

  function send(): void {
    const now = clock.now();
    const entries = [...pending.entries()].slice(0, TROUBLES_MAX);
    for (const [name] of entries) pending.delete(name);
    // How long it lasts, since the clocks of machines differ.
    const told = entries.flatMap(([, { until, ...trouble }]) => (until > now ? [{ ...trouble, ms: until - now }] : []));
    if (told.length === 0) return;
    const payload = JSON.stringify({ from: self, told });
    database.query('upstreams_tell', 'select pg_notify($1, $2)', [UPSTREAMS_CHANNEL, payload]).catch((error) => {
      log.debug({ err: error }, 'other replicas were not told about an upstream');
    });
  }

  function sendWhenDue(): void {
    if (pause !== undefined || pending.size === 0) return;
    send();
    pause = clock.after(GAP_MS, () => {
      pause = undefined;
      sendWhenDue();
    });
    pause.unref();
  }

  return {
    tell({ kind, until, upstream, upstream_model, last, failing_ms = 0 }: Trouble): void {
      // Names too long to be told are not cut: they would be others.
      if (Buffer.byteLength(upstream) + Buffer.byteLength(upstream_model ?? '') > 2 * TEXT_MAX) return;
      if (pending.size >= PENDING_MAX) return;
      const brief = last === undefined ? {} : { last: last.replace(/[^ -~]/g, '?').slice(0, TEXT_MAX) };
      const named = {
        kind,
        until,
        failing_ms: Math.round(failing_ms),
        upstream,
        ...(upstream_model !== undefined && { upstream_model }),
        ...brief,
      };
      pending.set(`${kind} ${upstream} ${upstream_model ?? ''}`, named);
      sendWhenDue();
    },
    /** Takes what came over the channel; what this process said itself, and what can't be read, is nothing. */
    hear(payload: string): void {
      for (const trouble of readHints(payload, self, clock.now())) heed(trouble);
    },
    close(): void {
      pause?.close();
      pending.clear();
    },
  };
}

function readHints(payload: string, self: string, now: number): Trouble[] {
  let message: { readonly from?: unknown; readonly told?: unknown } | null;
  try {
    message = JSON.parse(payload);
  } catch {
    return [];
  }
  if (message === null || message.from === self || !Array.isArray(message.told)) return [];
  return message.told.slice(0, TROUBLES_MAX).flatMap((hint: Readonly<Record<string, unknown>> | null) => {
    const { kind, upstream, upstream_model, ms, last, failing_ms } = hint ?? {};
    if (!KINDS.includes(kind) || typeof upstream !== 'string' || typeof ms !== 'number') return [];
    return [
      {
        kind: kind as Trouble['kind'],
        upstream,
        until: now + ms,
        ...(typeof upstream_model === 'string' && { upstream_model }),
        ...(typeof last === 'string' && { last: last.slice(0, TEXT_MAX) }),
        ...(typeof failing_ms === 'number' && { failing_ms }),
      },
    ];
  });
}
