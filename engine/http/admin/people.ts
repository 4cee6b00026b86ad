import { cutOff } from '../../services/cut-off.ts';
import { demandAdmin } from './caller.ts';
import { type AdminDoor, nothingThere } from './door.ts';
import { emailInPath } from './fields.ts';

/** What administrators do to people. */
export function peopleDoors(): AdminDoor[] {
  return [
    {
      method: 'POST',
      path: '/admin/api/people/{email}/cut-off',
      async answer({ caller, by, param, body }) {
        demandAdmin(caller);
        const given = await body('tokens', 'because');
        const tokens = given.choice('tokens', ['all', 'self_service', 'none']) ?? 'all';
        const because = given.text('because') ?? 'cut off by an administrator';
        const user = emailInPath(param('email'));
        if (user !== undefined) {
          const { known, ...ended } = await cutOff(by, { user, actor: by.actor, because, tokens });
          if (known) return { body: { user, sessions: ended.sessions, tokens: ended.tokens } };
        }
        throw nothingThere('Nobody with this e-mail address has ever signed in here or had an access token.');
      },
    },
  ];
}
