import { listChanges } from '../../audit/admin-changes.ts';
import { demandAdmin } from './caller.ts';
import { type AdminOptions, type AdminRoute, pageOf, pageSize } from './route.ts';

/** What was changed, by whom and when. */
export function changeRoutes({ database }: AdminOptions): AdminRoute[] {
  return [
    {
      method: 'GET',
      path: '/admin/api/changes',
      scope: 'changes:read',
      async answer({ caller, query }) {
        demandAdmin(caller);
        const asked = query('since', 'before', 'limit');
        const limit = pageSize(asked);
        const since = asked.time('since');
        const before = asked.integer('before', { min: 1, max: Number.MAX_SAFE_INTEGER });
        const page = pageOf(await listChanges(database, { since, before, limit: limit + 1 }), limit);
        return { body: { changes: page.entries, next: page.next } };
      },
    },
  ];
}
