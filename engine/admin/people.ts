import { OperationError } from '../contract/operation-error.ts';
import { deprovision } from '../identity/deprovisioning/deprovision.ts';
import { rolesOf } from '../identity/deprovisioning/token-groups.ts';
import {
  type KnownPerson,
  listPeople,
  type PeopleFilter,
  type RebindWish,
  rebindAs,
} from '../identity/sessions/bindings.ts';
import { serviceTokensOf } from '../identity/tokens/service-tokens.ts';
import type { AdminOptions, Asked } from './asked.ts';
import { emailInPath } from './input.ts';

/** What administrators see of people and do to them. */
export function peopleOperations({ config, database, clock }: AdminOptions) {
  const at = { config, database, clock };
  const isAdmin = ({ groups }: KnownPerson) => rolesOf(config.auth ?? {}, groups).includes('admin');
  return {
    async listPeople(_: Asked, { limit, ...only }: Pick<PeopleFilter, 'user' | 'search' | 'after' | 'limit'>) {
      const more = limit === undefined ? undefined : limit + 1;
      const found = await listPeople(at, { ...only, limit: more });
      const people = found.slice(0, limit).map((person) => ({ ...person, is_admin: isAdmin(person) }));
      return { people, next: people.length < found.length ? people.at(-1)!.email : null };
    },

    async rebind({ by }: Asked, { email, ...wish }: RebindWish & { readonly email: string }) {
      const oidc = config.auth?.oidc;
      if (wish.subject !== undefined && oidc === undefined) {
        throw new OperationError(
          'the field "subject" names an account of the identity provider, and auth.oidc names none',
        );
      }
      const user = emailInPath(email);
      const [person] = user === undefined ? [] : await listPeople(at, { user });
      if (person === undefined) throw unknown(user);
      return rebindAs(by, person, wish, oidc);
    },

    async deprovision(
      { by }: Asked,
      wish: { readonly email: string; readonly tokens: 'all' | 'self_service' | 'none'; readonly because?: string },
    ) {
      const user = emailInPath(wish.email);
      if (user === undefined) throw unknown(user);
      const because = wish.because ?? 'deprovisioned by an administrator';
      const { known, ...ended } = await deprovision(by, { user, actor: by.actor, because, tokens: wish.tokens });
      if (!known) throw unknown(user);
      const service_tokens = await serviceTokensOf(at, user);
      return { user, sessions: ended.sessions, tokens: ended.tokens, service_tokens };
    },
  };
}

function unknown(user: string | undefined): OperationError {
  const address = user === undefined ? 'this address' : `the address ${user}`;
  return new OperationError(
    `nobody with ${address} has ever signed in here or had an access token; check the address`,
    'missing',
  );
}
