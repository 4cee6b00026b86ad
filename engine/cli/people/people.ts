import type { AdminApi, InJson } from '../../admin/operations.ts';
import type { Fetch } from '../../client/http.ts';
import { StartError } from '../../contract/start-error.ts';
import type { KnownPerson, RebindWish } from '../../identity/sessions/bindings.ts';
import { type Location, withAdmin } from '../admin.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, usageError } from '../exit-codes.ts';
import { showList, showResult } from '../show.ts';
import { formatDay, titleInZone } from '../times.ts';

type Shown = InJson<KnownPerson>;

/** `appscli people list`: everybody the gateway knows, and the account they sign in with. */
export async function list(
  context: CommandContext,
  given: Location & { readonly user?: string; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { people } = await withAdmin(context, given, (admin) => admin('listPeople', { user: given.user }), fetch);
  return showList(context, people, given.json, {
    none: 'Nobody has signed in or had an access token yet.',
    columns: ['USER', 'ACCOUNT', titleInZone('SEEN'), 'TOKENS SUSPENDED', 'NOTE'],
    cells: (person) => [
      person.email,
      person.subject ?? '',
      person.signed_in_at === null ? 'never' : formatDay(person.signed_in_at),
      suspensionOf(person),
      noteOf(person),
    ],
  });
}

/** What `appscli people rebind` is told. */
export interface RebindOptions extends Location, RebindWish {
  readonly formerIssuer?: string;
  readonly json?: true;
}

/** `appscli people rebind`: lets addresses go to another account. Exits 1 when an address is not known. */
export async function rebind(
  context: CommandContext,
  emails: readonly string[],
  given: RebindOptions,
  fetch?: Fetch,
): Promise<number> {
  const { subject, tokens } = given;
  checkWish(emails, given);
  const rebindAll = async (admin: AdminApi) => {
    const done = [];
    for (const email of await addressesMeant(admin, emails, given)) {
      done.push(await admin('rebind', { email, subject, tokens }));
    }
    return done;
  };
  const done = await withAdmin(context, given, rebindAll, fetch);
  const whose = subject === undefined ? 'the next account that signs in with it' : `the account ${subject}`;
  return showResult(context, done, given.json, () => {
    for (const { user, sessions, tokens } of done) {
      const ended = `${counted(sessions, 'session')}, ${counted(tokens, 'access token')}`;
      context.terminal.info(`${user} goes to ${whose}. Ended: ${ended}.\n`);
    }
  });
}

function checkWish(emails: readonly string[], { subject, formerIssuer }: RebindOptions): void {
  if ((emails.length === 0) === (formerIssuer === undefined)) {
    throw usageError(
      'whose? Give addresses, as "appscli people list" shows them, or --former-issuer for all people of one',
    );
  }
  if (subject !== undefined && emails.length !== 1) throw usageError('--subject names one account: give one address');
}

/** Nothing is changed while one of them is not known. */
async function addressesMeant(
  admin: AdminApi,
  emails: readonly string[],
  { formerIssuer }: RebindOptions,
): Promise<readonly string[]> {
  const { people } = await admin('listPeople', {});
  const none = (message: string) => new StartError(message, { exit_code: EXIT_FINDINGS });
  if (formerIssuer !== undefined) {
    const bare = (issuer: string | null) => issuer?.replace(/\/+$/, '');
    const bound = people.filter(({ issuer }) => bare(issuer) === bare(formerIssuer)).map(({ email }) => email);
    if (bound.length > 0) return bound;
    throw none(`nobody is bound to an account of ${formerIssuer}; "appscli people list --json" shows issuers`);
  }
  const known = new Set(people.map(({ email }) => email));
  const unknown = emails.filter((email) => !known.has(email.toLowerCase()));
  if (unknown.length === 0) return emails;
  throw none(
    `${unknown.join(', ')}: never signed in here, nor had an access token; nothing was changed, check the address`,
  );
}

function suspensionOf({ own_tokens_suspended, own_tokens_suspend_at }: Shown): string {
  if (own_tokens_suspended) return 'now';
  return own_tokens_suspend_at === null ? '' : formatDay(own_tokens_suspend_at);
}

function noteOf({ open_to_sign_in, subject, has_given_tokens, own_tokens_suspended }: Shown): string {
  if (open_to_sign_in) return 'goes to the next account that signs in';
  if (subject === null && has_given_tokens) return 'has tokens of an administrator; signing in is refused';
  return own_tokens_suspended && has_given_tokens ? 'tokens of an administrator go on' : '';
}
