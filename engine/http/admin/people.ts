import { deprovision } from '../../identity/deprovisioning/deprovision.ts';
import { listPeople, rebindAs } from '../../identity/sessions/bindings.ts';
import { serviceTokensOf } from '../../identity/tokens/service-tokens.ts';
import { demandAdmin } from './caller.ts';
import { emailInPath, invalid } from './fields.ts';
import { type AdminOptions, type AdminRoute, nothingThere } from './route.ts';

const UNKNOWN = 'Nobody with this e-mail address has ever signed in here or had an access token.';

/** What administrators see of people and do to them. */
export function peopleRoutes({ config, database, clock }: AdminOptions): AdminRoute[] {
  const at = { config, database, clock };
  return [
    {
      method: 'GET',
      path: '/admin/api/people',
      scope: 'people:read',
      async answer({ caller, query }) {
        demandAdmin(caller);
        return { body: { people: await listPeople(at, { user: query('user').email('user') }) } };
      },
    },
    {
      method: 'POST',
      path: '/admin/api/people/{email}/rebind',
      scope: 'people:write',
      async answer({ caller, by, param, body }) {
        demandAdmin(caller);
        const given = await body('subject', 'tokens');
        const wish = { subject: given.text('subject'), tokens: given.choice('tokens', ['keep', 'revoke']) };
        if (wish.subject !== undefined && config.auth?.oidc === undefined) {
          throw invalid('The field "subject" names an account of the identity provider, and auth.oidc names none.');
        }
        const user = emailInPath(param('email'));
        const [person] = user === undefined ? [] : await listPeople(at, { user });
        if (person !== undefined) return { body: await rebindAs(by, person, wish, config.auth?.oidc) };
        throw nothingThere(UNKNOWN);
      },
    },
    {
      method: 'POST',
      path: '/admin/api/people/{email}/cut-off',
      scope: 'people:write',
      async answer({ caller, by, param, body }) {
        demandAdmin(caller);
        const given = await body('tokens', 'because');
        const tokens = given.choice('tokens', ['all', 'self_service', 'none']) ?? 'all';
        const because = given.text('because') ?? 'cut off by an administrator';
        const user = emailInPath(param('email'));
        if (user !== undefined) {
          const { known, ...ended } = await deprovision(by, { user, actor: by.actor, because, tokens });
          if (known) {
            const service_tokens = await serviceTokensOf(at, user);
            return { body: { user, sessions: ended.sessions, tokens: ended.tokens, service_tokens } };
          }
        }
        throw nothingThere(UNKNOWN);
      },
    },
  ];
}
