import { listRefusals } from '../../identity/provider/refused-sign-ins.ts';
import { demandAdmin } from './caller.ts';
import type { AdminOptions, AdminRoute } from './route.ts';

/** Who was turned away lately, for administrators. */
export function refusedSignInRoutes({ database }: AdminOptions): AdminRoute[] {
  return [
    {
      method: 'GET',
      path: '/admin/api/refused-sign-ins',
      scope: 'people:read',
      async answer({ caller, query }) {
        demandAdmin(caller);
        return { body: { refused_sign_ins: await listRefusals(database, { user: query('user').email('user') }) } };
      },
    },
  ];
}
