import { DEFAULT_OVERLAP_SECONDS, MAX_OVERLAP_SECONDS } from '../../identity/tokens/rotate-token.ts';
import {
  createServiceToken,
  listServiceTokens,
  MAX_SERVICE_TOKEN_DAYS,
  revokeServiceToken,
  rotateServiceToken,
  showServiceToken,
} from '../../identity/tokens/service-tokens.ts';
import { demandAdmin } from './caller.ts';
import { endOfLife } from './fields.ts';
import { type AdminOptions, type AdminRoute, idOf } from './route.ts';

const PATH = '/admin/api/service-tokens';
const MAX_SECONDS = MAX_SERVICE_TOKEN_DAYS * 86_400;

/** Service tokens: made, replaced and ended by administrators, never by one another. */
export function serviceTokenRoutes({ database, clock }: AdminOptions): AdminRoute[] {
  const known = async (id: string) => showServiceToken((await listServiceTokens(database, id))[0]!, clock.now());
  const made = async ({ token, id }: { readonly token: string; readonly id: string }) => ({
    status: 201,
    headers: { location: `${PATH}/${id}` },
    body: { token, ...(await known(id)) },
  });
  return [
    {
      method: 'GET',
      path: PATH,
      scope: 'person',
      async answer({ caller, query }) {
        demandAdmin(caller);
        query();
        const all = await listServiceTokens(database);
        return { body: { service_tokens: all.map((token) => showServiceToken(token, clock.now())) } };
      },
    },
    {
      method: 'POST',
      path: PATH,
      scope: 'person',
      async answer({ caller, by, body }) {
        demandAdmin(caller);
        const given = await body('name', 'scopes', 'expires_at', 'expires_in_seconds');
        const expires_at = endOfLife(given, clock, MAX_SECONDS) ?? undefined;
        const wanted = { name: given.needText('name'), scopes: given.texts('scopes'), expires_at };
        return made(await createServiceToken(by, wanted));
      },
    },
    {
      method: 'DELETE',
      path: `${PATH}/{id}`,
      scope: 'person',
      async answer(call) {
        demandAdmin(call.caller);
        const id = idOf(call, 'service token');
        await revokeServiceToken(call.by, id);
        return { body: await known(id) };
      },
    },
    {
      method: 'POST',
      path: `${PATH}/{id}/rotate`,
      scope: 'person',
      async answer(call) {
        demandAdmin(call.caller);
        const given = await call.body('overlap_seconds', 'expires_at', 'expires_in_seconds');
        const overlap_seconds =
          given.integer('overlap_seconds', { min: 0, max: MAX_OVERLAP_SECONDS }) ?? DEFAULT_OVERLAP_SECONDS;
        const expires_at = endOfLife(given, clock, MAX_SECONDS) ?? undefined;
        return made(await rotateServiceToken(call.by, idOf(call, 'service token'), { overlap_seconds, expires_at }));
      },
    },
  ];
}
