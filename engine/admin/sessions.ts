import { OperationError } from '../contract/operation-error.ts';
import { endSession, endSessionsOf } from '../identity/deprovisioning/deprovision.ts';
import type { AdminOptions, Asked, PageAsked } from './asked.ts';
import { type Caller, ownerToList } from './caller.ts';
import { demandId, notInList, pageOf } from './input.ts';

/** Sessions of people who signed in: one's own, for administrators everybody's. */
export function sessionOperations({ sessions }: AdminOptions) {
  return {
    async listSessions(
      { caller }: Asked,
      { user, ended, limit, after }: PageAsked & { readonly user?: string; readonly ended: 'true' | 'false' },
    ) {
      const owner = ownerToList(caller, user);
      const all =
        (await sessions?.list({ ...(owner !== undefined && { user: owner }), ended: ended === 'true' })) ?? [];
      const start = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
      if (after !== undefined && start === 0) throw notInList();
      const page = pageOf(all.slice(start), limit);
      const current = caller.principal.token.id;
      return {
        sessions: page.entries.map((session) => ({ ...session, current: session.id === current })),
        next: page.next,
      };
    },

    async endSessions({ caller, by }: Asked, { user, keep }: { readonly user?: string; readonly keep?: 'current' }) {
      const owner = ownerToList(caller, user) ?? caller.email;
      const but = keep === 'current' ? caller.principal.token.id : undefined;
      const sessions = await endSessionsOf(by, { user: owner, but, because: `ended ${whoEnds(caller)}` });
      return { user: owner, sessions };
    },

    async endSession({ caller, by }: Asked, { id: given }: { readonly id: string }) {
      const id = demandId(given, 'session');
      const user = caller.is_admin ? undefined : caller.email;
      if (await endSession(by, { id, because: `ended ${whoEnds(caller)}`, user })) return { id, ended: true };
      const where = caller.is_admin ? '; "appscli sessions list" shows all' : ' among yours';
      throw new OperationError(`there is no session ${id} to end${where}`, 'missing');
    },
  };
}

function whoEnds({ actor, is_admin }: Caller): string {
  if (actor.kind === 'command') return 'at the command line';
  return is_admin ? 'by an administrator' : 'by its owner';
}
