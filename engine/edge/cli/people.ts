import { StartError } from '../../base/contract/start-error.ts';
import type { KnownPerson, RebindWish } from '../../domain/identity/sessions/bindings.ts';
import type { AdminApi, InJson } from '../admin/operations.ts';
import { type AnswerOf, allEntries, listing, operation } from './admin.ts';
import { counted } from './amounts.ts';
import type { CommandRow } from './commands.ts';
import { EXIT_FINDINGS, usageError } from './exit-codes.ts';
import { choice, email, notEmpty, option } from './options.ts';
import { showResult } from './show.ts';
import { formatDay, titleInZone } from './times.ts';

type Shown = InJson<KnownPerson>;
type Rebinding = RebindWish & { readonly emails: readonly string[]; readonly formerIssuer?: string };

/** Nothing is changed while one of them is not known. */
async function addressesMeant(admin: AdminApi, { emails, formerIssuer }: Rebinding): Promise<readonly string[]> {
  const people = await allEntries<Shown>(admin, 'listPeople', 'people', {});
  const none = (message: string) => new StartError(message, { exit_code: EXIT_FINDINGS });
  if (formerIssuer !== undefined) {
    const bare = (issuer: string | null) => issuer?.replace(/\/+$/, '');
    const bound = people.filter(({ issuer }) => bare(issuer) === bare(formerIssuer)).map(({ email }) => email);
    if (bound.length > 0) return bound;
    throw none(`nobody is bound to an account of ${formerIssuer}; "appscli users list --json" shows issuers`);
  }
  const known = new Set(people.map(({ email }) => email));
  const unknown = emails.filter((email) => !known.has(email.toLowerCase()));
  if (unknown.length === 0) return emails;
  throw none(
    `${unknown.join(', ')}: never signed in here, nor had an access token; nothing was changed, check the address`,
  );
}

function noteOf({ open_to_sign_in, subject, has_given_tokens, own_tokens_suspended }: Shown): string {
  if (open_to_sign_in) return 'goes to the next account that signs in';
  if (subject === null && has_given_tokens) return 'has tokens made by an administrator; signing in is refused';
  return own_tokens_suspended && has_given_tokens ? 'tokens made by an administrator go on' : '';
}

/** `appscli users`. */
export const commands: readonly CommandRow[] = [
  listing('listPeople', 'people', {
    name: 'list',
    about: 'everybody the gateway knows, and the account they sign in with',
    options: [option('--user <email>', 'only this person', email)],
    examples: ['appscli users list', 'appscli users list --user ana@example.com --json'],
    none: 'Nobody has signed in or had an access token yet.',
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
    about: 'let addresses go to another account; their sessions end',
    arguments: [['[emails...]', 'the addresses']],
    options: [
      option('--subject <sub>', 'to the account with this identifier; else the next that signs in', notEmpty),
      option('--former-issuer <url>', 'instead of addresses: all people of this former provider', notEmpty),
      choice('--tokens <what>', 'what becomes of their access tokens', ['keep', 'revoke']),
    ],
    json: 'print a JSON array with what was ended',
    notes: `An address belongs to the account that signed in with it first. Signing in
with another account is refused, and so is signing in with an address that
administrators made access tokens for; the gateway's log names such accounts.

Access tokens are revoked where another account of the same provider had the
address, since it may be somebody else's, and kept otherwise. After a change
of the provider, --former-issuer lets everybody in again.`,
    examples: [
      'appscli users reassign ana@example.com',
      'appscli users reassign ana@example.com --subject 00u1a2b3c4 --tokens keep',
      'appscli users reassign --former-issuer https://old.example.com',
    ],
    check({ emails, subject, formerIssuer }) {
      if ((emails.length === 0) === (formerIssuer === undefined)) {
        throw usageError(
          'whose? Give addresses, as "appscli users list" shows them, or --former-issuer for all people of one',
        );
      }
      if (subject !== undefined && emails.length !== 1)
        throw usageError('--subject names one account: give one address');
    },
    async call(admin, given) {
      const { subject, tokens } = given;
      const done = [];
      for (const email of await addressesMeant(admin, given)) {
        done.push(await admin('rebind', { email, subject, tokens }));
      }
      return done;
    },
    show: (context, done, { subject, json }) =>
      showResult(context, done, json, () => {
        const whose = subject === undefined ? 'the next account that signs in with it' : `the account ${subject}`;
        for (const { user, sessions, tokens } of done) {
          const ended = `${counted(sessions, 'session')}, ${counted(tokens, 'access token')}`;
          context.terminal.info(`${user} goes to ${whose}. Ended: ${ended}.\n`);
        }
      }),
  }),
];
