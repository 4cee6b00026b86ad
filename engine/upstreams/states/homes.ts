import { LRUCache } from 'lru-cache';
import { atMost } from '../../kit/memory.ts';

/** Where sessions are at home: the upstream that keeps their prompts. Of the sessions served last, `HOMES_MAX` at most. */
export interface Homes {
  /** `undefined` when nobody keeps anything of it any more. */
  of(session: string, now: number): string | undefined;
  settle(session: string, upstream: string, until: number): void;
  /** Forgets what was kept by upstreams that are gone. */
  keepOnly(upstreams: { has(name: string): boolean }): void;
}

/** Some 10 MB when all are there. */
const HOMES_MAX = 50_000;

interface Home {
  readonly upstream: string;
  readonly until: number;
}

/** At first no session has a home. */
export function createHomes(): Homes {
  const homes = new LRUCache<string, Home>(atMost(HOMES_MAX));
  return {
    of(session, now) {
      const home = homes.get(session);
      return home !== undefined && now < home.until ? home.upstream : undefined;
    },
    settle: (session, upstream, until) => void homes.set(session, { upstream, until }),
    keepOnly(upstreams) {
      for (const [session, { upstream }] of homes.entries()) if (!upstreams.has(upstream)) homes.delete(session);
    },
  };
}
