import { StartError } from '../../base/contract/start-error.ts';
import type { KnownPerson, RebindRequest } from '../../domain/identity/sessions/people.ts';
import type { AdminApi, InJson } from '../admin/operations.ts';
import { type AnswerOf, allEntries, listing, operation } from './admin.ts';
import { type CommandRow, EXIT_FINDINGS, notEmpty, option, usageError } from './commands.ts';
import { fields } from './gateway-admin.ts';
import { counted, formatDay, showResult, titleInZone } from './output.ts';

type Shown = InJson<KnownPerson>;
type Rebinding = RebindRequest & { readonly emails: readonly string[]; readonly formerIssuer?: string };

/** The addresses to reassign. Raises StartError for unknown ones, before any change. */
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

export const commands: readonly CommandRow[] = [
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
      option('--former-issuer <url>', 'instead of addresses: all users of this former provider', notEmpty),
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
