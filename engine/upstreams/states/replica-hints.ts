import { randomUUID } from 'node:crypto';
import type { Clock, Log } from '../../contract/services.ts';
import type { Database } from '../../store/database.ts';
import { UPSTREAMS_CHANNEL } from './drained-upstreams.ts';
import type { Trouble } from './trouble.ts';

/** Tells other replicas what keeps requests from upstreams, and takes what they tell. Nothing depends on it. */
export interface ReplicaHints {
  tell(trouble: Trouble): void;
  /** Takes what came over the channel; what this process said itself, and what can't be read, is nothing. */
  hear(payload: string): void;
  close(): void;
}

const KINDS: readonly unknown[] = ['open', 'unreachable', 'credential', 'limited'] satisfies Trouble['kind'][];
/** In the time between two messages, only the last word on each upstream and model is kept. */
const GAP_MS = 1000;
const TROUBLES_MAX = 12;
/** PostgreSQL takes 8000 bytes; `TROUBLES_MAX` of the longest are fewer. */
const TEXT_MAX = 100;
const PENDING_MAX = 200;

/** Opens the exchange; `heed` is given what others told. */
export function createReplicaHints(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly heed: (trouble: Trouble) => void;
}): ReplicaHints {
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
    tell({ kind, until, upstream, upstream_model, last, failing_ms = 0 }) {
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
    hear(payload) {
      for (const trouble of readHints(payload, self, clock.now())) heed(trouble);
    },
    close() {
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
