import type { AdminApi, InJson } from '../../admin/operations.ts';
import type { Fetch } from '../../client/http.ts';
import type { RefusedSignIn } from '../../identity/provider/refused-sign-ins.ts';
import type { KnownPerson } from '../../identity/sessions/bindings.ts';
import type { SessionSummary } from '../../identity/sessions/sessions.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { type Location, withAdmin } from '../admin.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { sessionsOf } from '../sessions/sessions.ts';
import { showReport } from '../show.ts';

/** What is known of a person's sign-ins. */
interface SignIns {
  readonly user: string;
  readonly refused: readonly InJson<RefusedSignIn>[];
  /** Refusals of people whose address did not come, where nothing is known of this one. */
  readonly without_address: readonly InJson<RefusedSignIn>[];
  /** The account the address is bound to; absent where nobody signed in with it. */
  readonly account?: InJson<Pick<KnownPerson, 'subject' | 'issuer' | 'signed_in_at' | 'groups'>>;
  readonly sessions: readonly InJson<SessionSummary>[];
}

const REFUSED_SHOWN = 3;
const LATEST = 100;
const GROUPS_SHOWN = 20;
const NO_GROUPS =
  'none came: neither models, teams nor roles that go by groups are theirs. "appscli check --live" says where a scope for them is missing';
const WIDTH = 80;
const INDENT = ' '.repeat(12);

/** `appscli sessions explain`: why somebody was refused or signed out, as far as the gateway knows. */
export async function explain(
  context: CommandContext,
  email: string,
  given: Location & { readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const found = await withAdmin(context, given, (admin) => readSignIns(admin, email.toLowerCase()), fetch);
  return showReport(context, given.json, found, () => describe(found, Math.min(terminal.columns, WIDTH)));
}

async function readSignIns(admin: AdminApi, user: string): Promise<SignIns> {
  const { refused_sign_ins: refused } = await admin('listRefusedSignIns', { user });
  const { people } = await admin('listPeople', { user });
  const sessions = await sessionsOf(admin, user, true);
  const [person] = people;
  if (person?.subject == null) {
    const is_unknown = refused.length + sessions.length === 0;
    const lately = is_unknown ? (await admin('listRefusedSignIns', { limit: LATEST })).refused_sign_ins : [];
    return { user, refused, sessions, without_address: lately.filter(({ email }) => email === '') };
  }
  const { subject, issuer, signed_in_at, groups } = person;
  return { user, refused, sessions, without_address: [], account: { subject, issuer, signed_in_at, groups } };
}

function describe({ user, refused, without_address, account, sessions }: SignIns, width: number): string[] {
  const open = sessions.filter(
    ({ revoked_at, expires_at }) => revoked_at === null && Date.parse(expires_at) > Date.now(),
  );
  const ended = sessions.filter(({ revoked_at }) => revoked_at !== null);
  const line = (title: string, text: string) => {
    const [first = '', ...more] = wrapText(text, width, INDENT);
    return [`  ${title.padEnd(INDENT.length - 2)}${first.trimStart()}`, ...more];
  };
  const nothing = refused.length + sessions.length === 0 && account === undefined;
  return [
    user,
    ...(nothing
      ? line('unknown', 'nobody has tried to sign in with this address in the last 14 days, or it was another one')
      : []),
    ...without_address
      .slice(0, REFUSED_SHOWN)
      .flatMap((each) => line('perhaps', `${shown(each.at)}, refused without an address: ${each.detail}`)),
    ...refused
      .slice(0, REFUSED_SHOWN)
      .flatMap((each) => [
        ...line('refused', `${shown(each.at)}: ${each.detail}`),
        ...line(
          '',
          `${each.client || 'a program without a name'} from ${each.client_address}, ${each.request_id === '' ? 'asked about by the gateway itself' : `request ${each.request_id}`}`,
        ),
        ...(each.expected.length === 0
          ? []
          : [
              ...line('came', each.groups.length === 0 ? 'no groups' : each.groups.join(', ')),
              ...line('expected', `one of ${each.expected.join(', ')} (auth.oidc.allowed_groups)`),
            ]),
      ]),
    ...(refused.length > REFUSED_SHOWN ? line('', `and ${refused.length - REFUSED_SHOWN} times before`) : []),
    ...(account === undefined
      ? []
      : [
          ...line('account', `${account.subject} of ${account.issuer}, verified last ${shown(account.signed_in_at)}`),
          ...line('groups', account.groups.length === 0 ? NO_GROUPS : account.groups.slice(0, GROUPS_SHOWN).join(', ')),
        ]),
    ...(sessions.length === 0
      ? []
      : line('sessions', `${counted(open.length, 'open session')}, ${ended.length} ended`)),
    ...ended
      .slice(0, REFUSED_SHOWN)
      .flatMap(({ revoked_at, revoked_because }) =>
        line('ended', `${shown(revoked_at)}: ${revoked_because ?? 'nobody said why'}`),
      ),
  ];
}

function shown(at: string | null): string {
  return at === null ? 'never' : `${at.slice(0, 16).replace('T', ' ')} UTC`;
}
