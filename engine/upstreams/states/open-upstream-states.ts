import type { UpstreamConfig } from '../../contract/config.ts';
import type { Drained } from '../../contract/forwarding.ts';
import type { Clock, Log } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import type { Database } from '../../store/database.ts';
import { DRAINED_CHANGED, listDrained, UPSTREAMS_CHANNEL } from './drained-upstreams.ts';
import { createTroubleKeeper } from './kept-troubles.ts';
import { createReplicaHints } from './replica-hints.ts';
import type { Trouble } from './trouble.ts';
import { createUpstreamStates, type LastingUpstreamStates } from './upstream-states.ts';

/** States of upstreams that know what administrators drained and what other replicas saw. */
export interface OpenUpstreamStates extends LastingUpstreamStates {
  /** Resolves when the list of drained upstreams was asked for the first time, whether that worked or not. */
  readonly attempted: Promise<void>;
  /** Reads which upstreams are drained. Never rejects. */
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
  const kept = createTroubleKeeper({ database, clock, log });
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
      kept.close();
      await reading;
    },
  };
}
