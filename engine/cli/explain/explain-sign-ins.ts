import type { Fetch } from '../../client/http.ts';
import { listRefusals, type RefusedSignIn } from '../../identity/provider/refused-sign-ins.ts';
import { type KnownPerson, listPeople } from '../../identity/sessions/bindings.ts';
import { createSessions, type SessionSummary } from '../../identity/sessions/sessions.ts';
import { systemClock } from '../../kit/clock.ts';
import { jsonText, printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { counted } from '../amounts.ts';
import { type Answered, openAtGateway, textOf, timeOf } from '../at-gateway.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { sessionOf } from '../sessions/sessions.ts';
import type { Place } from '../tokens/tokens.ts';
import { withDatabase } from '../with-database.ts';

/** What is known of a person's sign-ins. */
interface SignIns {
  readonly user: string;
  readonly refused: readonly RefusedSignIn[];
  /** The account the address is bound to; absent where nobody signed in with it. */
  readonly account?: Pick<KnownPerson, 'subject' | 'issuer' | 'signed_in_at'>;
  readonly sessions: readonly SessionSummary[];
}

const REFUSED_SHOWN = 3;
const WIDTH = 80;
const INDENT = ' '.repeat(12);

/** `appscli sessions explain`: why somebody was turned away or signed out, as far as the gateway knows. */
export async function explain(
  context: CommandContext,
  email: string,
  given: Place & { readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const user = email.toLowerCase();
  const found =
    given.baseUrl === undefined
      ? await readDatabase(context, given.config, user)
      : await readGateway(context, given.baseUrl, user, fetch);
  if (given.json) terminal.data(`${jsonText(found, 2)}\n`);
  else terminal.data(printableLines(describe(found, Math.min(terminal.columns, WIDTH))));
  return EXIT_OK;
}

function readDatabase(context: CommandContext, config_file: string, user: string): Promise<SignIns> {
  return withDatabase(context, config_file, async ({ config, database }) => {
    const [person] = await listPeople({ config, database, clock: systemClock }, { user });
    const sessions = await createSessions({ database, clock: systemClock }).list({ user, ended: true });
    return withAccount({ user, refused: await listRefusals(database, { user }), sessions }, person);
  });
}

async function readGateway(context: CommandContext, base_url: string, user: string, fetch?: Fetch): Promise<SignIns> {
  const gateway = await openAtGateway(context, base_url, fetch);
  const of = `?user=${encodeURIComponent(user)}`;
  const refused = listIn(await gateway.ask('GET', `/admin/api/refused-sign-ins${of}`), 'refused_sign_ins');
  const [person] = listIn(await gateway.ask('GET', `/admin/api/people${of}`), 'people');
  const sessions = await gateway.all('/admin/api/sessions', 'sessions', { user, ended: 'true' });
  const account = person && {
    subject: textOf(person.subject) || null,
    issuer: textOf(person.issuer) || null,
    signed_in_at: timeOf(person.signed_in_at),
  };
  return withAccount({ user, refused: refused.map(refusalOf), sessions: sessions.map(sessionOf) }, account);
}

function listIn(answer: Answered, key: string): readonly Answered[] {
  return Array.isArray(answer[key]) ? (answer[key] as Answered[]) : [];
}

function withAccount(found: Omit<SignIns, 'account'>, account: SignIns['account']): SignIns {
  if (account?.subject == null) return found;
  const { subject, issuer, signed_in_at } = account;
  return { ...found, account: { subject, issuer, signed_in_at } };
}

function refusalOf(answer: Answered): RefusedSignIn {
  const texts = (value: unknown) => (Array.isArray(value) ? value.map(textOf) : []);
  return {
    at: timeOf(answer.at) ?? new Date(0),
    email: textOf(answer.email),
    subject: textOf(answer.subject) || null,
    issuer: textOf(answer.issuer) || null,
    client: textOf(answer.client),
    client_address: textOf(answer.client_address),
    request_id: textOf(answer.request_id),
    refused: textOf(answer.refused) as RefusedSignIn['refused'],
    detail: textOf(answer.detail),
    groups: texts(answer.groups),
    expected: texts(answer.expected),
  };
}

function describe({ user, refused, account, sessions }: SignIns, width: number): string[] {
  const open = sessions.filter(({ revoked_at, expires_at }) => revoked_at === null && expires_at > new Date());
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
      : line('account', `${account.subject} of ${account.issuer}, verified last ${shown(account.signed_in_at)}`)),
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

function shown(at: Date | null): string {
  return at === null ? 'never' : `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
