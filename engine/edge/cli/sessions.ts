import { printableLines } from '../../base/kit/text/printable.ts';
import type { AdminApi } from '../admin/operations.ts';
import { type AnswerOf, allEntries, listing, operation } from './admin.ts';
import { type CommandRow, email, option, usageError } from './commands.ts';
import { fields } from './gateway-admin.ts';
import { counted, formatDay, paragraph, showResult, titleInZone } from './output.ts';

const BECAUSE = 'ended at the command line';

interface Ended {
  readonly sessions: number;
  readonly tokens: number;
  /** Service tokens of the person that stay valid. */
  readonly service_tokens?: readonly { readonly id: string; readonly name: string }[];
}

type Session = AnswerOf<'listSessions'>['sessions'][number];

const sessionsOf = (admin: AdminApi, user: string | undefined, ended: boolean) =>
  allEntries<Session>(admin, 'listSessions', 'sessions', { user, ended: String(ended) });

interface WhichSessions {
  readonly id?: string;
  readonly user?: string;
  readonly withTokens?: true;
}

/** Ends all sessions of a user. Users without the admin role end their own sessions one by one. */
async function endAll(admin: AdminApi, user: string, with_tokens: boolean, at_database: boolean): Promise<Ended> {
  if (at_database || with_tokens || (await admin('getMe', {})).roles.includes('admin')) {
    const tokens = with_tokens ? 'all' : 'none';
    const { service_tokens, ...ended } = await admin('deprovision', { email: user, tokens, because: BECAUSE });
    const lost = { sessions: ended.sessions, tokens: ended.tokens };
    return with_tokens ? { ...lost, service_tokens } : lost;
  }
  const own = await sessionsOf(admin, user, false);
  // End the current session last: it authorises the others.
  own.sort((a, b) => Number(a.current) - Number(b.current));
  for (const { id } of own) await admin('endSession', { id });
  return { sessions: own.length, tokens: 0 };
}

/** Lists service tokens that stay valid, which an administrator may believe to be revoked, too. */
function describeGoingOn({ service_tokens = [] }: Ended): string[] {
  if (service_tokens.length === 0) return [];
  return [
    'These service tokens of the user, who may know them, stay valid:',
    ...service_tokens.map(({ id, name }) => `  ${id}  ${name}`),
    'Take one over with "appscli service-tokens rotate ID", or revoke it.',
  ];
}

const REFUSED_SHOWN = 3;
const LATEST = 100;
const GROUPS_SHOWN = 20;
const NO_GROUPS =
  'none received, so no models, teams or roles by group; "appscli check --live" shows whether a scope is missing';
const INDENT = ' '.repeat(12);

async function readSignIns(admin: AdminApi, user: string) {
  const { refused_sign_ins: refused } = await admin('listRefusedSignIns', { user });
  const [person] = (await admin('listPeople', { user })).people;
  const sessions = await sessionsOf(admin, user, true);
  if (person?.subject == null) {
    const is_unknown = refused.length + sessions.length === 0;
    const lately = is_unknown ? (await admin('listRefusedSignIns', { limit: LATEST })).refused_sign_ins : [];
    // Perhaps it was rejected without an address.
    return { user, refused, sessions, without_address: lately.filter(({ email }) => email === ''), account: undefined };
  }
  const { subject, issuer, signed_in_at, groups } = person;
  return { user, refused, sessions, without_address: [], account: { subject, issuer, signed_in_at, groups } };
}

type SignIns = Awaited<ReturnType<typeof readSignIns>>;

function describe({ user, refused, without_address, account, sessions }: SignIns): string[] {
  const open = sessions.filter(
    ({ revoked_at, expires_at }) => revoked_at === null && Date.parse(expires_at) > Date.now(),
  );
  const ended = sessions.filter(({ revoked_at }) => revoked_at !== null);
  const line = (title: string, text: string) => paragraph(text, `  ${title.padEnd(INDENT.length - 2)}`, INDENT);
  const nothing = refused.length + sessions.length === 0 && account === undefined;
  return [
    user,
    ...(nothing ? line('unknown', 'no sign-in with this address in the last 14 days') : []),
    ...without_address
      .slice(0, REFUSED_SHOWN)
      .flatMap((each) => line('perhaps', `${shown(each.at)}, rejected without an address: ${each.detail}`)),
    ...refused
      .slice(0, REFUSED_SHOWN)
      .flatMap((each) => [
        ...line('rejected', `${shown(each.at)}: ${each.detail}`),
        ...line(
          '',
          `${each.client || 'a program without a name'} from ${each.client_address}, ${each.request_id === '' ? 'at a refresh by the gateway' : `request ${each.request_id}`}`,
        ),
        ...(each.expected.length === 0
          ? []
          : [
              ...line('received', each.groups.length === 0 ? 'no groups' : each.groups.join(', ')),
              ...line('expected', `one of ${each.expected.join(', ')} (auth.oidc.allowed_groups)`),
            ]),
      ]),
    ...(refused.length > REFUSED_SHOWN ? line('', `and ${refused.length - REFUSED_SHOWN} earlier`) : []),
    ...(account === undefined
      ? []
      : [
          ...line('account', `${account.subject} of ${account.issuer}, last verified ${shown(account.signed_in_at)}`),
          ...line('groups', account.groups.length === 0 ? NO_GROUPS : account.groups.slice(0, GROUPS_SHOWN).join(', ')),
        ]),
    ...(sessions.length === 0
      ? []
      : line('sessions', `${counted(open.length, 'open session')}, ${ended.length} ended`)),
    ...ended
      .slice(0, REFUSED_SHOWN)
      .flatMap(({ revoked_at, revoked_because }) =>
        line('ended', `${shown(revoked_at)}: ${revoked_because ?? 'no reason given'}`),
      ),
  ];
}

function shown(at: string | null): string {
  return at === null ? 'never' : `${at.slice(0, 16).replace('T', ' ')} UTC`;
}

export const commands: readonly CommandRow[] = [
  listing<'listSessions', 'sessions', { readonly ended?: true }>('listSessions', 'sessions', {
    name: 'list',
    about: 'list sign-in sessions, newest first',
    options: [...fields('listSessions', 'user'), option('--ended', 'also ended sessions')],
    examples: ['appscli sessions list --user alice@example.com --ended'],
    input: ({ ended }) => ({ ended: String(ended === true) }),
    none: 'No sessions.',
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
    about: 'explain why a sign-in was rejected, or a session ended',
    arguments: [['<email>', 'e-mail address of the user', email]],
    notes: `Shows the received and the expected groups, close matches first. Rejected
sign-ins are kept for 14 days, at most ten per address.`,
    examples: ['appscli sessions explain dana@example.com'],
    call: (admin, { email }) => readSignIns(admin, email.toLowerCase()),
    lines: describe,
  }),
  operation<'endSession', WhichSessions, Ended>('endSession', {
    name: 'end',
    about: 'end a session, or all sessions of a user; takes effect within a second',
    arguments: [['[id]', 'id of the session, see sessions list']],
    options: [
      option('--user <email>', 'instead of the id: all sessions of this user', email),
      option('--with-tokens', 'with --user: also revoke all access tokens'),
    ],
    json: 'print a JSON object with the number of ended sessions and tokens',
    notes: `The user can sign in again, unless the identity provider or
auth.oidc.allowed_groups prevents it.`,
    examples: ['appscli sessions end ses_1a2b3c4d', 'appscli sessions end --user alice@example.com --with-tokens'],
    check({ id, user, withTokens }) {
      if ((id === undefined) !== (user === undefined) && (id === undefined || !withTokens)) return;
      throw usageError('no session: give an id from "appscli sessions list", or --user for all sessions of a user');
    },
    async call(admin, { id, user, withTokens, baseUrl }) {
      if (id === undefined) return endAll(admin, user!, withTokens === true, baseUrl === undefined);
      await admin('endSession', { id });
      return { sessions: 1, tokens: 0 };
    },
    show: (context, ended, { id, user, withTokens, json }) =>
      showResult(context, ended, json, () => {
        const tokens = withTokens ? ` and ${counted(ended.tokens, 'access token')}` : '';
        const lost = `Ended ${counted(ended.sessions, 'session')}${tokens} of ${user}.`;
        const lines = id === undefined ? [lost, ...describeGoingOn(ended)] : [`Ended session ${id}.`];
        context.terminal.info(printableLines(lines));
      }),
  }),
];
