import { printableLines } from '../../base/kit/text/printable.ts';
import { wrapText } from '../../base/kit/text/wrap-text.ts';
import type { RefusedSignIn } from '../../domain/identity/provider/refused-sign-ins.ts';
import type { KnownPerson } from '../../domain/identity/sessions/bindings.ts';
import type { AdminApi, InJson } from '../admin/operations.ts';
import { type AnswerOf, allEntries, listing, operation } from './admin.ts';
import { counted } from './amounts.ts';
import type { CommandRow } from './commands.ts';
import { usageError } from './exit-codes.ts';
import { email, option } from './options.ts';
import { showResult } from './show.ts';
import { formatDay, titleInZone } from './times.ts';

const BECAUSE = 'ended at the command line';

interface Ended {
  readonly sessions: number;
  readonly tokens: number;
  /** Those that go on, of a person who lost everything else. */
  readonly service_tokens?: readonly { readonly id: string; readonly name: string }[];
}

type Session = AnswerOf<'listSessions'>['sessions'][number];

/** Sessions, the newest first, of one person where one is named. */
const sessionsOf = (admin: AdminApi, user: string | undefined, ended: boolean) =>
  allEntries<Session>(admin, 'listSessions', 'sessions', { user, ended: String(ended) });

interface WhichSessions {
  readonly id?: string;
  readonly user?: string;
  readonly withTokens?: true;
}

/** People who are no administrators end their own sessions one by one. */
async function endAll(admin: AdminApi, user: string, with_tokens: boolean, at_database: boolean): Promise<Ended> {
  if (at_database || with_tokens || (await admin('getMe', {})).roles.includes('admin')) {
    const tokens = with_tokens ? 'all' : 'none';
    const { service_tokens, ...ended } = await admin('deprovision', { email: user, tokens, because: BECAUSE });
    const lost = { sessions: ended.sessions, tokens: ended.tokens };
    return with_tokens ? { ...lost, service_tokens } : lost;
  }
  const own = await sessionsOf(admin, user, false);
  // The one that asks goes last: what comes after it would be refused.
  own.sort((a, b) => Number(a.current) - Number(b.current));
  for (const { id } of own) await admin('endSession', { id });
  return { sessions: own.length, tokens: 0 };
}

/** What whoever ended all that somebody had may take for ended as well. */
function describeGoingOn({ service_tokens = [] }: Ended): string[] {
  if (service_tokens.length === 0) return [];
  return [
    'Still in force are service tokens that they answer for, and may know:',
    ...service_tokens.map(({ id, name }) => `  ${id}  ${name}`),
    '"appscli service-tokens rotate ID" takes one over, "appscli service-tokens revoke ID" ends it.',
  ];
}

interface SignIns {
  readonly user: string;
  readonly refused: readonly InJson<RefusedSignIn>[];
  /** Refusals of people whose address did not come, where nothing is known of this one. */
  readonly without_address: readonly InJson<RefusedSignIn>[];
  /** The account the address is bound to; absent where nobody signed in with it. */
  readonly account?: InJson<Pick<KnownPerson, 'subject' | 'issuer' | 'signed_in_at' | 'groups'>>;
  readonly sessions: readonly Session[];
}

const REFUSED_SHOWN = 3;
const LATEST = 100;
const GROUPS_SHOWN = 20;
const NO_GROUPS =
  'none came: neither models, teams nor roles that go by groups are theirs. "appscli check --live" says where a scope for them is missing';
const WIDTH = 80;
const INDENT = ' '.repeat(12);

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

/** `appscli sessions`. */
export const commands: readonly CommandRow[] = [
  listing<'listSessions', 'sessions', { readonly ended?: true }>('listSessions', 'sessions', {
    name: 'list',
    about: 'sessions of people who signed in, the newest first',
    options: [option('--user <email>', 'only those of this person', email), option('--ended', 'ended ones as well')],
    examples: ['appscli sessions list --user alice@example.com --ended'],
    input: ({ ended }) => ({ ended: String(ended === true) }),
    none: 'Nobody is signed in.',
    columns: [
      ['ID', ({ id }) => id],
      ['USER', ({ user }) => user],
      ['PROGRAM', ({ client }) => client],
      ['FROM', ({ client_address }) => client_address],
      ['SINCE', ({ created_at }) => formatDay(created_at)],
      [titleInZone('UNTIL'), ({ revoked_at, expires_at }) => formatDay(revoked_at ?? expires_at)],
      ['ENDED', ({ revoked_at, revoked_because }) => revoked_at && (revoked_because ?? 'ended')],
      ['TOKEN REFUSED', ({ refused_at: at, refused_from }) => at && `${formatDay(at)} from ${refused_from}`],
    ],
  }),
  operation<'listSessions', { readonly email: string }, SignIns>('listSessions', {
    name: 'explain',
    about: 'why a person was refused, or signed out',
    arguments: [['<email>', 'address of the person', email]],
    notes: `Names the groups that came and those that are expected, close misses first.
Refused sign-ins are kept for 14 days, at most ten of one address.`,
    examples: ['appscli sessions explain dana@example.com'],
    call: (admin, { email }) => readSignIns(admin, email.toLowerCase()),
    lines: (found, { terminal }) => describe(found, Math.min(terminal.columns, WIDTH)),
  }),
  operation<'endSession', WhichSessions, Ended>('endSession', {
    name: 'end',
    about: 'end a session, or all of a person; gateways refuse them within a second',
    arguments: [['[id]', 'its id, as sessions list shows it']],
    options: [
      option('--user <email>', 'instead of the id: all of this person', email),
      option('--with-tokens', 'with --user: revoke all access tokens as well'),
    ],
    json: 'print a JSON object with how many were ended',
    notes: `Somebody whose sessions are ended can sign in again, unless the identity
provider or auth.oidc.allowed_groups says otherwise.`,
    examples: ['appscli sessions end ses_1a2b3c4d', 'appscli sessions end --user alice@example.com --with-tokens'],
    check({ id, user, withTokens }) {
      if ((id === undefined) !== (user === undefined) && (id === undefined || !withTokens)) return;
      throw usageError(
        'which session? Give its id, as "appscli sessions list" shows it, or --user for all of somebody',
      );
    },
    async call(admin, { id, user, withTokens, baseUrl }) {
      if (id === undefined) return endAll(admin, user!, withTokens === true, baseUrl === undefined);
      await admin('endSession', { id });
      return { sessions: 1, tokens: 0 };
    },
    show: (context, ended, { id, user, withTokens, json }) =>
      showResult(context, ended, json, () => {
        const tokens = withTokens ? ` and ${counted(ended.tokens, 'access token')}` : '';
        const lost = `Ended of ${user}: ${counted(ended.sessions, 'session')}${tokens}.`;
        const lines = id === undefined ? [lost, ...describeGoingOn(ended)] : [`Ended the session ${id}.`];
        context.terminal.info(printableLines(lines));
      }),
  }),
];
