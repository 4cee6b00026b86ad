import { StartError } from '../../contract/start-error.ts';
import { type KnownPerson, listPeople, type RebindWish, rebindAs } from '../../identity/sessions/bindings.ts';
import { systemClock } from '../../kit/clock.ts';
import { jsonText, printableLines } from '../../kit/text/printable.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK, EXIT_USAGE } from '../exit-codes.ts';
import { operator } from '../operator.ts';
import { type Column, formatList, withoutEmptyColumns } from '../table.ts';
import { dayWords, titleInZone } from '../times.ts';
import { withDatabase } from '../with-database.ts';

/** `appscli people list`: everybody the gateway knows, and the account they sign in with. */
export async function list(
  context: CommandContext,
  given: { readonly config: string; readonly user?: string; readonly json?: true },
): Promise<number> {
  const { terminal } = context;
  const { user } = given;
  const people = await withDatabase(context, given.config, ({ config, database }) =>
    listPeople({ config, database, clock: systemClock }, { user }),
  );
  if (given.json) terminal.data(`${jsonText(people, 2)}\n`);
  else if (people.length === 0) terminal.words('Nobody has signed in or had an access token yet.\n');
  else terminal.data(printableLines(describePeople(people, terminal.table_columns)));
  return EXIT_OK;
}

/** What `appscli people rebind` is told. */
export interface RebindOptions extends RebindWish {
  readonly config: string;
  readonly formerIssuer?: string;
  readonly json?: true;
}

/** `appscli people rebind`: lets addresses go to another account. Exits 1 when an address is not known. */
export async function rebind(
  context: CommandContext,
  emails: readonly string[],
  given: RebindOptions,
): Promise<number> {
  const { terminal } = context;
  checkWish(emails, given);
  const done = await withDatabase(context, given.config, async ({ config, database }) => {
    const oidc = config.auth?.oidc;
    if (given.subject !== undefined && oidc === undefined) {
      throw new StartError('--subject names an account of the identity provider, and auth.oidc names none');
    }
    const by = { database, clock: systemClock, actor: operator() };
    const ended = [];
    for (const person of await peopleMeant({ config, database, clock: systemClock }, emails, given)) {
      ended.push(await rebindAs(by, person, given, oidc));
    }
    return ended;
  });
  if (given.json) terminal.data(`${jsonText(done)}\n`);
  else for (const each of done) terminal.words(`${sentence(each, given)}\n`);
  return EXIT_OK;
}

function checkWish(emails: readonly string[], { subject, formerIssuer }: RebindOptions): void {
  const wrong = (message: string) => new StartError(message, { exit_code: EXIT_USAGE });
  if ((emails.length === 0) === (formerIssuer === undefined)) {
    throw wrong('whose? Give addresses, as "appscli people list" shows them, or --former-issuer for all people of one');
  }
  if (subject !== undefined && emails.length !== 1) throw wrong('--subject names one account: give one address');
}

async function peopleMeant(
  at: Parameters<typeof listPeople>[0],
  emails: readonly string[],
  { formerIssuer }: RebindOptions,
): Promise<readonly KnownPerson[]> {
  if (formerIssuer !== undefined) {
    const people = await listPeople(at, { issuer: formerIssuer });
    if (people.length > 0) return people;
    throw new StartError(
      `nobody is bound to an account of ${formerIssuer}; "appscli people list --json" shows issuers`,
      {
        exit_code: EXIT_FINDINGS,
      },
    );
  }
  const found = await Promise.all(emails.map((user) => listPeople(at, { user })));
  const unknown = emails.filter((_, at) => found[at]!.length === 0);
  if (unknown.length === 0) return found.flat();
  const who = unknown.join(', ');
  throw new StartError(
    `${who}: never signed in here, nor had an access token; nothing was changed, check the address`,
    {
      exit_code: EXIT_FINDINGS,
    },
  );
}

type Rebound = Awaited<ReturnType<typeof rebindAs>>;

function sentence({ user, sessions, tokens }: Rebound, { subject }: RebindWish): string {
  const whose = subject === undefined ? 'the next account that signs in with it' : `the account ${subject}`;
  return `${user} goes to ${whose}. Ended: ${counted(sessions, 'session')}, ${counted(tokens, 'access token')}.`;
}

const columnsHere = (): Column[] => [
  { title: 'USER', kind: 'text' },
  { title: 'ACCOUNT', kind: 'text' },
  { title: titleInZone('SEEN'), kind: 'text' },
  { title: 'TOKENS REST', kind: 'text' },
  { title: 'NOTE', kind: 'text' },
];

function describePeople(people: readonly KnownPerson[], line_width: number): string[] {
  const cells = people.map((person) => [
    person.email,
    person.subject ?? '',
    person.signed_in_at === null ? 'never' : dayWords(person.signed_in_at),
    person.own_tokens_suspended
      ? 'now'
      : person.own_tokens_suspend_at === null
        ? ''
        : dayWords(person.own_tokens_suspend_at),
    noteOf(person),
  ]);
  const { columns, rows } = withoutEmptyColumns(columnsHere(), cells);
  return formatList(columns, rows, line_width);
}

function noteOf({ open_to_sign_in, subject, has_given_tokens, ...tokens }: KnownPerson): string {
  if (open_to_sign_in) return 'goes to the next account that signs in';
  if (subject === null && has_given_tokens) return 'has tokens of an administrator; signing in is refused';
  return tokens.own_tokens_suspended && has_given_tokens ? 'tokens of an administrator go on' : '';
}
