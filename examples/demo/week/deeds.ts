import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import type { CounterName } from '../../../engine/base/contract/services.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { grantLimit, setLimit } from '../../../engine/domain/budget/limits/limit-settings.ts';
import { listPeople, rebindAs } from '../../../engine/domain/identity/sessions/people.ts';
import { createToken, revokeToken, rotateToken } from '../../../engine/domain/identity/tokens/tokens.ts';
import { drainUpstream, resumeUpstream } from '../../../engine/domain/upstreams/states/shared-states.ts';
import type { MovableClock } from './clock.ts';
import { MEMBERS, type MemberName } from './members.ts';
import type { Ask, Deed } from './plan.ts';

/** Alice's changes in the week, and the access tokens she created. */
export interface Deeds {
  do(deed: Deed['deed']): Promise<void>;
  tokenOf(who: Ask['who']): string;
}

/** The project that marks made-up data of the week in every list and report. */
export const WEEK_PROJECT = 'demo-week';

const HOUR_MS = 3_600_000;
const USD = 1_000_000_000;

/**
 * Creates the access tokens of the week, and still lets Alice and Bob sign in: by default an address with tokens from an
 * administrator cannot sign in. Raises errors of the store.
 */
export async function openDeeds(at: {
  readonly config: GatewayConfig;
  readonly database: Database;
  readonly clock: MovableClock;
}): Promise<Deeds> {
  const by = { ...at, actor: { kind: 'person', name: MEMBERS.alice.user } } as const;
  const tokens = new Map<Ask['who'], { readonly id: string; readonly token: string }>();
  const make = async (who: Ask['who'], member: MemberName, name: string) => {
    const { user, group, team } = MEMBERS[member];
    tokens.set(who, await createToken(by, { user, group, name, team, project: WEEK_PROJECT }));
    at.clock.moveOn(40_000);
  };
  for (const who of Object.keys(MEMBERS) as MemberName[]) await make(who, who, MEMBERS[who].token);
  await make('old laptop', 'erik', 'old laptop');

  for (const who of ['alice', 'bob'] as const) {
    const [person] = await listPeople(at, { user: MEMBERS[who].user });
    await rebindAs(by, person!, { subject: who, tokens: 'keep' }, at.config.auth?.oidc);
  }

  const dayOf = (who: MemberName): CounterName => ({
    scope: 'user',
    key: MEMBERS[who].user,
    window: 'day',
    unit: 'nano_usd',
  });
  const deeds: Readonly<Record<Deed['deed'], () => Promise<unknown>>> = {
    'revoke-old-laptop': () => revokeToken(by, tokens.get('old laptop')!.id),
    'limit-bob': () => setLimit(by, { name: dayOf('bob'), amount: USD / 4, reason: 'interns begin small' }),
    'limit-gus': () => setLimit(by, { name: dayOf('gus'), amount: 5 * USD, reason: 'a program needs no more' }),
    async 'rotate-dora'() {
      const { id } = tokens.get('dora')!;
      tokens.set('dora', await rotateToken(by, id, { overlap_seconds: 3600 }));
    },
    drain: () => drainUpstream(by, 'demo', 'it responds 529; the spare one serves meanwhile'),
    resume: () => resumeUpstream(by, 'demo', 'the provider reports that it is over'),
    'grant-gus': () =>
      grantLimit(by, {
        name: dayOf('gus'),
        amount: 5 * USD,
        reason: 'the review of the release has to be done tonight',
        expires_at: new Date(at.clock.now() + 12 * HOUR_MS),
      }),
  };
  return {
    async do(deed) {
      await deeds[deed]();
    },
    tokenOf: (who) => tokens.get(who)!.token,
  };
}
