import { StartError } from '../../base/contract/start-error.ts';
import { printableLines } from '../../base/kit/text/printable.ts';
import type { KnownPerson, RebindRequest } from '../../domain/identity/sessions/people.ts';
import type { AdminApi, InJson } from '../admin/operations.ts';
import { type AnswerOf, allEntries, listing, operation } from './admin.ts';
import { type CommandRow, EXIT_FINDINGS, email, option, usageError } from './commands.ts';
import { fields } from './gateway-admin.ts';
import { counted, formatDay, formatMoment, paragraph, showResult, titleInZone } from './output.ts';

type Shown = InJson<KnownPerson>;
type Rebinding = RebindRequest & { readonly emails: readonly string[]; readonly formerIssuer?: string };

async function addressesMeant(admin: AdminApi, { emails, formerIssuer }: Rebinding): Promise<readonly string[]> {
  const users = await allEntries<Shown>(admin, 'listPeople', 'people', {});
  const none = (message: string) => new StartError(message, { exit_code: EXIT_FINDINGS });
  if (formerIssuer !== undefined) {
    const bare = (issuer: string | null) => issuer?.replace(/\/+$/, '');
    const bound = users.filter(({ issuer }) => bare(issuer) === bare(formerIssuer)).map(({ email }) => email);
    if (bound.length > 0) return bound;
    throw none(`no user has an account of ${formerIssuer}; "appscli users list --json" shows issuers`);
  }
  const known = new Set(users.map(({ email }) => email));
  const unknown = emails.filter((email) => !known.has(email.toLowerCase()));
  if (unknown.length === 0) return emails;
  throw none(`unknown user ${unknown.join(', ')}: nothing was changed; see "appscli users list"`);
}

function noteOf({ open_to_sign_in, subject, has_given_tokens, own_tokens_suspended }: Shown): string {
  if (open_to_sign_in) return 'assigned to the next account that signs in';
  if (subject === null && has_given_tokens) return 'has tokens of an administrator; sign-in is rejected';
  return own_tokens_suspended && has_given_tokens ? 'tokens of an administrator stay valid' : '';
}

export const users: readonly CommandRow[] = [
  listing('listPeople', 'people', {
    name: 'list',
    about: 'list users with their accounts',
    options: fields('listPeople', 'user'),
    examples: ['appscli users list', 'appscli users list --user ana@example.com --json'],
    none: 'No users yet: nobody has signed in or has an access token.',
    columns: [
      ['USER', ({ email }) => email],
      ['ACCOUNT', ({ subject }) => subject],
      [titleInZone('SEEN'), ({ signed_in_at: at }) => (at === null ? 'never' : formatDay(at))],
      [
        'TOKENS SUSPENDED',
        ({ own_tokens_suspended: now, own_tokens_suspend_at: at }) => (now ? 'now' : at && formatDay(at)),
      ],
      ['NOTE', noteOf],
    ],
  }),
  operation<'rebind', Rebinding, readonly AnswerOf<'rebind'>[]>('rebind', {
    name: 'reassign',
    about: 'assign users to other accounts, and end their sessions',
    arguments: [['[emails...]', 'e-mail addresses of the users']],
    options: [
      ...fields('rebind', 'subject', 'tokens'),
      option('--former-issuer <url>', 'instead of addresses: all users of this former provider'),
    ],
    json: 'print a JSON array of ended sessions and tokens',
    notes: `An address belongs to the account that first signed in with it. Sign-in with
another account is rejected, as is sign-in with an address that administrators
created access tokens for; the gateway's log names rejected accounts.

By default access tokens are revoked if another account of the same provider had
the address, since it may be another person, and kept otherwise. After a change
of the provider, use --former-issuer.`,
    examples: [
      'appscli users reassign ana@example.com',
      'appscli users reassign ana@example.com --subject 00u1a2b3c4 --tokens keep',
      'appscli users reassign --former-issuer https://old.example.com',
    ],
    check({ emails, subject, formerIssuer }) {
      if ((emails.length === 0) === (formerIssuer === undefined)) {
        throw usageError(
          'no user: give addresses from "appscli users list", or --former-issuer for all users of a provider',
        );
      }
      if (subject !== undefined && emails.length !== 1) throw usageError('--subject needs exactly one address');
    },
    async call(admin, options) {
      const { subject, tokens } = options;
      const done = [];
      for (const email of await addressesMeant(admin, options)) {
        done.push(await admin('rebind', { email, subject, tokens }));
      }
      return done;
    },
    show: (context, done, { subject, json }) =>
      showResult(context, done, json, () => {
        const whose = subject === undefined ? 'the next account that signs in with it' : `account ${subject}`;
        for (const { user, sessions, tokens } of done) {
          const ended = `${counted(sessions, 'session')}, ${counted(tokens, 'access token')}`;
          context.terminal.info(`Assigned ${user} to ${whose}. Ended: ${ended}.\n`);
        }
      }),
  }),
];

const BECAUSE = 'ended at the command line';

interface Ended {
  readonly sessions: number;
  readonly tokens: number;
  readonly service_tokens?: readonly { readonly id: string; readonly name: string }[];
}

type Session = AnswerOf<'listSessions'>['sessions'][number];

/** Ends all sessions of a user. Raises an error for an unknown one, except for users without the admin role. */
async function endAll(admin: AdminApi, user: string, with_tokens: boolean, at_database: boolean): Promise<Ended> {
  if (!at_database && !with_tokens && !(await admin('getMe', {})).roles.includes('admin')) {
    return { sessions: (await admin('endSessions', { user })).sessions, tokens: 0 };
  }
  const input = { email: user, tokens: with_tokens ? 'all' : 'none', because: BECAUSE } as const;
  const { sessions, tokens, service_tokens } = await admin('deprovision', input);
  return { sessions, tokens, ...(with_tokens && { service_tokens }) };
}

function describeGoingOn({ service_tokens = [] }: Ended): string[] {
  if (service_tokens.length === 0) return [];
  return [
    'These service tokens stay valid, and the user may have copies of them:',
    ...service_tokens.map(({ id, name }) => `  ${id}  ${name}`),
    'Take one over with "appscli service-tokens rotate ID", or revoke it.',
  ];
}

const REJECTIONS_SHOWN = 3;
const LATEST = 100;
const GROUPS_SHOWN = 20;
const NO_GROUPS =
  'none received, so no models, teams or roles by group; "appscli check --live" shows whether a scope is missing';
const INDENT = ' '.repeat(12);

async function readSignIns(admin: AdminApi, user: string) {
  const { refused_sign_ins: refused } = await admin('listRefusedSignIns', { user });
  const [person] = (await admin('listPeople', { user })).people;
  const sessions = await allEntries<Session>(admin, 'listSessions', 'sessions', { user, ended: 'true' });
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
  const is_unknown = refused.length + sessions.length === 0 && account === undefined;
  const rows: readonly (readonly [title: string, text: string | false | undefined])[] = [
    ['unknown', is_unknown && 'no sign-in with this address in the last 14 days'],
    ...without_address
      .slice(0, REJECTIONS_SHOWN)
      .map((each) => ['perhaps', `${shown(each.at)}, rejected without an address: ${each.detail}`] as const),
    ...refused.slice(0, REJECTIONS_SHOWN).flatMap(describeRejection),
    ['', refused.length > REJECTIONS_SHOWN && `and ${refused.length - REJECTIONS_SHOWN} earlier`],
    ['account', account && `${account.subject} of ${account.issuer}, last verified ${shown(account.signed_in_at)}`],
    ['groups', account && (account.groups.slice(0, GROUPS_SHOWN).join(', ') || NO_GROUPS)],
    ['sessions', sessions.length > 0 && `${counted(open.length, 'open session')}, ${ended.length} ended`],
    ...ended
      .slice(0, REJECTIONS_SHOWN)
      .map((each) => ['ended', `${shown(each.revoked_at)}: ${each.revoked_because ?? 'no reason given'}`] as const),
  ];
  const lines = rows.flatMap(([title, text]) =>
    text ? paragraph(text, `  ${title.padEnd(INDENT.length - 2)}`, INDENT) : [],
  );
  return [user, ...lines];
}

function describeRejection(refused: SignIns['refused'][number]) {
  const { at, detail, client, client_address, request_id, groups, expected } = refused;
  const where = request_id === '' ? 'at a refresh by the gateway' : `request ${request_id}`;
  const is_by_group = expected.length > 0;
  return [
    ['rejected', `${shown(at)}: ${detail}`],
    ['', `${client || 'a program without a name'} from ${client_address}, ${where}`],
    ['received', is_by_group && (groups.join(', ') || 'no groups')],
    ['expected', is_by_group && `one of ${expected.join(', ')} (auth.oidc.allowed_groups)`],
  ] as const;
}

const shown = (at: string | null) => (at === null ? 'never' : formatMoment(at, 'UTC'));

export const sessions: readonly CommandRow[] = [
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
      ['CLIENT', ({ client }) => client],
      ['FROM', ({ client_address }) => client_address],
      ['SINCE', ({ created_at }) => formatDay(created_at)],
      [titleInZone('UNTIL'), ({ revoked_at, expires_at }) => formatDay(revoked_at ?? expires_at)],
      ['ENDED', ({ revoked_at, revoked_because }) => revoked_at && (revoked_because ?? 'ended')],
      ['TOKEN REJECTED', ({ refused_at: at, refused_from }) => at && `${formatDay(at)} from ${refused_from}`],
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
  operation<'endSession', { id?: string; user?: string; withTokens?: true }, Ended>('endSession', {
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
