import { endSession } from '../../identity/deprovisioning/deprovision.ts';
import type { Caller } from './caller.ts';
import { invalid } from './fields.ts';
import { ownerToList } from './owner.ts';
import { type AdminOptions, type AdminRoute, idOf, nothingThere, pageOf, pageSize } from './route.ts';

/** Sessions of people who signed in: one's own, for administrators everybody's. */
export function sessionRoutes({ identity }: AdminOptions): AdminRoute[] {
  return [
    {
      method: 'GET',
      path: '/admin/api/sessions',
      scope: 'sessions:read',
      async answer({ caller, query }) {
        const asked = query('user', 'ended', 'limit', 'after');
        const user = ownerToList(caller, asked.email('user'));
        const limit = pageSize(asked);
        const ended = asked.choice('ended', ['true', 'false']) === 'true';
        const all = (await identity?.sessions.list({ ...(user === undefined ? {} : { user }), ended })) ?? [];
        const page = pageOf(all.slice(placeAfter(all, asked.text('after'))), limit);
        const current = caller.principal.token.id;
        return {
          body: {
            sessions: page.entries.map((session) => ({ ...session, current: session.id === current })),
            next: page.next,
          },
        };
      },
    },
    {
      method: 'DELETE',
      path: '/admin/api/sessions/{id}',
      scope: 'sessions:write',
      async answer(call) {
        const { caller, by } = call;
        const id = idOf(call, 'session');
        const because = caller.is_admin ? 'ended by an administrator' : 'ended by its owner';
        if (await endSession(by, { id, because, user: onlyOwn(caller) })) return { body: { id, ended: true } };
        throw nothingThere(`There is no session ${id} to end${caller.is_admin ? '' : ' among yours'}.`);
      },
    },
  ];
}

function onlyOwn({ is_admin, email }: Caller): string | undefined {
  return is_admin ? undefined : email;
}

/** Where a list goes on after an entry. */
function placeAfter(all: readonly { readonly id: string }[], after: string | undefined): number {
  if (after === undefined) return 0;
  const place = all.findIndex(({ id }) => id === after);
  if (place < 0) throw invalid('The parameter "after" names no entry of this list; begin again without it.');
  return place + 1;
}
