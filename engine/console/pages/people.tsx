import { type ReactNode, useMemo, useState } from 'react';
import { type AnswerOf, useOperation, usePageSearch, useSession } from '../api.ts';
import {
  Badge,
  Button,
  Card,
  Count,
  counted,
  EmptyState,
  Facts,
  Loaded,
  PageHead,
  TimeText,
  To,
  When,
} from '../parts/basic.tsx';
import { ChangeDialog, Drawer } from '../parts/dialog.tsx';
import { SearchField, SelectField, TextField, useFields } from '../parts/field.tsx';
import { type Column, List } from '../parts/table.tsx';

type Person = AnswerOf<'listPeople'>['people'][number];

const GROUPS_SHOWN = 3;

const PEOPLE_COLUMNS: readonly Column<Person>[] = [
  { id: 'email', title: 'Person', cell: (person) => <Named person={person} />, sort: ({ email }) => email },
  { id: 'groups', title: 'Groups', cell: ({ groups }) => <Groups groups={groups} /> },
  {
    id: 'signed_in_at',
    title: 'Last verified',
    cell: ({ signed_in_at }) => <When at={signed_in_at} />,
    sort: ({ signed_in_at }) => signed_in_at ?? '',
  },
  {
    id: 'sessions',
    title: 'Signed in with',
    cell: ({ client_sessions, console_sessions }) => (
      <span className="people-short">{sessionsInWords(client_sessions, console_sessions)}</span>
    ),
    sort: ({ client_sessions, console_sessions }) => client_sessions + console_sessions,
  },
  {
    id: 'tokens',
    title: 'Access tokens',
    cell: ({ tokens }) => <Count of={tokens} />,
    sort: ({ tokens }) => tokens,
    is_number: true,
  },
  { id: 'state', title: 'To know', cell: (person) => <States person={person} /> },
];

/** `2 programs, 1 browser`, without what there is none of. */
function sessionsInWords(programs: number, browsers: number): string {
  const parts = [programs > 0 && counted(programs, 'program'), browsers > 0 && counted(browsers, 'browser')];
  return parts.filter((part) => part !== false).join(', ') || 'nothing';
}

function Named({ person: { email, name } }: { person: Person }) {
  return (
    <span className="people-name stack near any">
      {email}
      {name !== null && <span className="soft small">{name}</span>}
    </span>
  );
}

/** The first groups of somebody; all of them are the title. */
function Groups({ groups, shown = GROUPS_SHOWN }: { groups: readonly string[]; shown?: number }) {
  if (groups.length === 0) return <span className="soft">none</span>;
  const rest = groups.length - shown;
  return (
    <span className="people-groups row any" title={groups.join(', ')}>
      {groups.slice(0, shown).map((group) => (
        <Badge key={group}>{group}</Badge>
      ))}
      {rest > 0 && <span className="soft small">and {rest} more</span>}
    </span>
  );
}

function States({ person }: { person: Person }) {
  const { is_admin, own_tokens_suspended, open_to_sign_in, refused_at } = person;
  return (
    <span className="people-groups row any">
      {is_admin && <Badge tone="info">Administrator</Badge>}
      {own_tokens_suspended && <Badge tone="warn">Tokens suspended</Badge>}
      {open_to_sign_in && <Badge tone="warn">Address is free</Badge>}
      {refused_at !== null && <Badge tone="warn">Refused lately</Badge>}
    </span>
  );
}

interface Asking {
  readonly person: Person;
  readonly onClose: () => void;
}

function EndAll({ person: { email, client_sessions, console_sessions }, onClose }: Asking) {
  return (
    <ChangeDialog
      operation="endSessions"
      input={{ user: email }}
      done={({ sessions }) => [`Ended of ${email}: ${counted(sessions, 'session')}.`]}
      onClose={onClose}
      title={`End all sessions of ${email}?`}
      action="End all sessions"
      kind="danger"
    >
      <p>
        Signed out within a second: {sessionsInWords(client_sessions, console_sessions)}. Access tokens go on working,
        and {email} can sign in again.
      </p>
    </ChangeDialog>
  );
}

type Refused = AnswerOf<'listRefusedSignIns'>['refused_sign_ins'][number];

const SHOWN = 20;

const REFUSED_COLUMNS: readonly Column<Refused>[] = [
  { id: 'at', title: 'When', cell: ({ at }) => <TimeText at={at} /> },
  { id: 'email', title: 'Who', cell: ({ email }) => email || <span className="soft">without an address</span> },
  { id: 'why', title: 'Why', cell: (refused) => <Why refused={refused} /> },
  { id: 'client', title: 'With', cell: ({ client }) => client || <span className="soft">not told</span> },
  { id: 'address', title: 'From', cell: ({ client_address }) => client_address },
];

const OWN_REFUSED_COLUMNS = REFUSED_COLUMNS.filter(({ id }) => id !== 'email');

/** Who was turned away lately, and why; of one person where one is named. */
function RefusedSignIns({ user }: { user?: string }) {
  return (
    <List
      query={useOperation('listRefusedSignIns', { limit: SHOWN, ...(user !== undefined && { user }) })}
      rows={({ refused_sign_ins }) => refused_sign_ins}
      lines={2}
      label="Refused sign-ins"
      columns={user === undefined ? REFUSED_COLUMNS : OWN_REFUSED_COLUMNS}
      empty={<p className="soft">No sign-in was refused in the last 14 days.</p>}
    />
  );
}

const REASONS: Readonly<Record<Refused['refused'], string>> = {
  email_missing: 'The identity provider told no e-mail address.',
  email_unverified: 'The identity provider has not verified the e-mail address.',
  email_domain: 'The address is at none of the allowed domains.',
  group: 'In none of the groups that are let in.',
  claims_unusable: 'What the identity provider told cannot be read.',
  too_many_groups: 'In more groups than the gateway can keep.',
  other_account: 'The address belongs to another account.',
  other_provider: 'The address belongs to an account of the identity provider before.',
  administrator_made: 'Administrators made access tokens for the address, which signing in does not take over.',
};

function Why({ refused: { refused, detail, groups, expected } }: { refused: Refused }) {
  return (
    <div className="people-why stack near any">
      <span>{REASONS[refused] ?? refused}</span>
      <span className="soft small">{detail}</span>
      {expected.length > 0 && (
        <span className="small">
          Let in: <Groups groups={expected} /> Came: <Groups groups={groups} />
        </span>
      )}
    </div>
  );
}

function Deprovision({ person, onClose }: Asking) {
  const { email, tokens, own_tokens, client_sessions, console_sessions } = person;
  const [{ what, because }, field] = useFields({ what: 'all', because: '' });
  return (
    <ChangeDialog
      operation="deprovision"
      input={{ email, tokens: what as 'all' | 'self_service' | 'none', because: because.trim() || undefined }}
      done={({ sessions, tokens: revoked, service_tokens }) => {
        const ended = `Ended of ${email}: ${counted(sessions, 'session')}, ${counted(revoked, 'access token')}.`;
        const names = service_tokens.map(({ name }) => name).join(', ');
        if (service_tokens.length === 0) return [ended];
        return [`${ended} Still in force are service tokens that they answer for: ${names}.`, 'alarm'];
      }}
      onClose={onClose}
      title={`Take away the access of ${email}?`}
      action="Take away access"
      kind="danger"
    >
      <p>
        {counted(client_sessions + console_sessions, 'session')} end within a second. Whoever the identity provider
        still lets in can sign in again: disable the account there first.
      </p>
      <SelectField
        label="Access tokens"
        {...field('what')}
        options={[
          { value: 'all', text: `Revoke all (${tokens})` },
          { value: 'self_service', text: `Revoke those of their own making (${own_tokens})` },
          { value: 'none', text: 'Keep all' },
        ]}
        hint="What is revoked cannot be brought back."
      />
      <TextField
        label="Reason"
        {...field('because')}
        maxLength={200}
        hint="For the list of changes. May be left empty."
      />
    </ChangeDialog>
  );
}

/** Asks to which account an address is to go. */
function Rebind({ person, onClose }: Asking) {
  const { email, subject: former, tokens, client_sessions, console_sessions } = person;
  const [{ to, subject, what }, field] = useFields({ to: 'next', subject: '', what: 'rule' });
  const account = to === 'subject' ? subject.trim() : undefined;
  return (
    <ChangeDialog
      operation="rebind"
      input={{ email, subject: account, tokens: what === 'rule' ? undefined : (what as 'keep' | 'revoke') }}
      done={({ sessions, tokens: revoked }) => {
        const whose = account === undefined ? 'the next account that signs in with it' : `the account ${account}`;
        return [
          `${email} goes to ${whose}. Ended: ${counted(sessions, 'session')}, ${counted(revoked, 'access token')}.`,
        ];
      }}
      onClose={onClose}
      title={`Give ${email} to another account?`}
      action="Give the address away"
      kind="danger"
    >
      <p>
        {former === null ? 'No account has the address yet. ' : `The account ${former} loses the address. `}
        {counted(client_sessions + console_sessions, 'session')} end within a second. Limits, and what was spent, stay
        with the address.
      </p>
      <SelectField
        label="To"
        {...field('to')}
        options={[
          { value: 'next', text: 'The next account that signs in with the address' },
          { value: 'subject', text: 'One account, by its identifier' },
        ]}
      />
      {to === 'subject' && (
        <TextField
          label="Identifier of the account"
          {...field('subject')}
          required
          maxLength={255}
          hint="What the identity provider calls it: the claim sub."
        />
      )}
      <SelectField
        label={`Access tokens (${tokens} in force)`}
        {...field('what')}
        options={[
          { value: 'rule', text: "Revoke them where they may be somebody else's" },
          { value: 'keep', text: 'Keep them: it is the same person' },
          { value: 'revoke', text: 'Revoke them: it is another person' },
        ]}
        hint="They may be somebody else's where another account of the same identity provider had the address."
      />
    </ChangeDialog>
  );
}

type Session = AnswerOf<'listSessions'>['sessions'][number];

const MOST = 200;

const SESSION_COLUMNS: readonly Column<Session>[] = [
  { id: 'client', title: 'Signed in with', cell: (session) => <Program session={session} /> },
  {
    id: 'created',
    title: 'Since',
    cell: ({ created_at }) => <TimeText at={created_at} />,
    sort: ({ created_at }) => created_at,
  },
  {
    id: 'seen',
    title: 'Last seen',
    cell: ({ seen_at, created_at }) => <TimeText at={seen_at ?? created_at} form="relative" />,
    sort: ({ seen_at, created_at }) => seen_at ?? created_at,
  },
  { id: 'end', title: 'Ends', cell: (session) => <End session={session} /> },
];

function SessionTable({ user, ended }: { user: string; ended: boolean }) {
  const sessions = useOperation('listSessions', { user, ended: ended ? 'true' : 'false', limit: MOST });
  const [chosen, choose] = useState<Session>();
  const columns = useMemo<readonly Column<Session>[]>(
    () => [
      ...SESSION_COLUMNS,
      {
        id: 'do',
        title: 'Action',
        cell: (session) =>
          session.revoked_at === null && (
            <Button onClick={() => choose(session)} aria-label={`End the session of ${programOf(session)}`}>
              End
            </Button>
          ),
      },
    ],
    [],
  );
  return (
    <>
      <List
        query={sessions}
        rows={(answer) => answer.sessions}
        lines={2}
        label="Sessions"
        columns={columns}
        empty={
          <EmptyState title="Signed in nowhere">
            Sessions begin when somebody signs in, here or in a terminal.
          </EmptyState>
        }
      />
      {chosen !== undefined && <EndSession session={chosen} onClose={() => choose(undefined)} />}
    </>
  );
}

function Program({ session }: { session: Session }) {
  const { kind, current, refused_at, refused_from, client_address } = session;
  return (
    <span className="stack near any">
      <span className="people-groups row any">
        {programOf(session)}
        <Badge>{kind === 'console' ? 'Console' : 'Program'}</Badge>
        {current && <Badge tone="good">This browser</Badge>}
      </span>
      <span className="soft small">from {client_address}</span>
      {refused_at !== null && (
        <span className="small">
          A copy of its credentials was refused <TimeText at={refused_at} form="relative" />, from {refused_from}.
        </span>
      )}
    </span>
  );
}

function programOf({ client }: Session): string {
  return client === '' ? 'a program that did not say its name' : client;
}

function End({ session: { revoked_at, revoked_because, expires_at } }: { session: Session }) {
  if (revoked_at === null) return <TimeText at={expires_at} form="relative" />;
  return (
    <span className="stack near any">
      <TimeText at={revoked_at} />
      <span className="soft small">{revoked_because}</span>
    </span>
  );
}

function EndSession({ session, onClose }: { session: Session; onClose: () => void }) {
  const { id, kind, current } = session;
  return (
    <ChangeDialog
      operation="endSession"
      input={{ id }}
      done={() => ['The session has ended.']}
      onClose={onClose}
      title="End this session?"
      action="End session"
      kind="danger"
    >
      <p>
        {current
          ? 'It is the one you use now: this browser is signed out.'
          : kind === 'console'
            ? `${programOf(session)} is signed out of the console within a second.`
            : `${programOf(session)} loses access within a second, and asks to sign in again. Access tokens stay.`}
      </p>
    </ChangeDialog>
  );
}

/** One person: account, groups, sessions, refusals, and what an administrator can end. */
function PersonDrawer({ email, onClose }: { email: string; onClose: () => void }) {
  const people = useOperation('listPeople', { user: email });
  return (
    <Drawer onClose={onClose} title={email}>
      <Loaded query={people}>
        {({ people: [person] }) =>
          person === undefined ? (
            <EmptyState title="Nobody here has this address">They never signed in, nor had an access token.</EmptyState>
          ) : (
            <PersonDetails person={person} />
          )
        }
      </Loaded>
    </Drawer>
  );
}

type Asked = 'end_all' | 'deprovision' | 'rebind';

function PersonDetails({ person }: { person: Person }) {
  const [asked, ask] = useState<Asked>();
  const [with_ended, showEnded] = useState(false);
  const { email } = person;
  const close = () => ask(undefined);
  const open = person.client_sessions + person.console_sessions;
  return (
    <div className="stack far">
      <PersonFacts person={person} />
      <Part title="Sessions">
        <SessionTable user={email} ended={with_ended} />
        <div className="row">
          <Button kind="quiet" aria-pressed={with_ended} onClick={() => showEnded(!with_ended)}>
            {with_ended ? 'Hide sessions that ended' : 'Show sessions that ended'}
          </Button>
          {open > 0 && <Button onClick={() => ask('end_all')}>End all sessions</Button>}
        </div>
      </Part>
      <Part title="Refused sign-ins">
        <RefusedSignIns user={email} />
      </Part>
      <Part title="When somebody leaves, or an account changes">
        <div className="row">
          <Button kind="danger" onClick={() => ask('deprovision')}>
            Take away access
          </Button>
          <Button onClick={() => ask('rebind')}>Give the address to another account</Button>
        </div>
      </Part>
      {asked === 'end_all' && <EndAll person={person} onClose={close} />}
      {asked === 'deprovision' && <Deprovision person={person} onClose={close} />}
      {asked === 'rebind' && <Rebind person={person} onClose={close} />}
    </div>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="stack">
      <h3>{title}</h3>
      {children}
    </section>
  );
}

const PAGES_ABOUT = [
  ['/requests', 'Requests'],
  ['/tokens', 'Tokens'],
  ['/limits', 'Limits'],
  ['/policies', 'Policies'],
] as const;

function PersonFacts({ person }: { person: Person }) {
  const { name, groups, issuer, subject, signed_in_at, tokens, own_tokens, own_tokens_suspend_at, email } = person;
  const { is_admin, own_tokens_suspended, open_to_sign_in, refused_at } = person;
  const is_odd = is_admin || own_tokens_suspended || open_to_sign_in || refused_at !== null;
  const account =
    subject === null ? (
      <span className="soft">none yet: nobody signed in with the address</span>
    ) : (
      <span className="people-name stack near any">
        <code>{subject}</code>
        <span className="soft small">{issuer}</span>
      </span>
    );
  const tokens_known = (
    <>
      {tokens} in force, {own_tokens} of their own making
      {own_tokens_suspend_at !== null && (
        <>
          ; suspended <TimeText at={own_tokens_suspend_at} form="relative" /> unless verified before
        </>
      )}
    </>
  );
  const more = PAGES_ABOUT.map(([path, title]) => (
    <To key={path} page={[path, { user: email }]}>
      {title}
    </To>
  ));
  return (
    <Facts
      of={{
        Name: name,
        'To know': is_odd && <States person={person} />,
        Groups: <Groups groups={groups} shown={20} />,
        Account: account,
        'Last verified':
          signed_in_at === null ? <span className="soft">never</span> : <TimeText at={signed_in_at} form="long" />,
        'Access tokens': tokens_known,
        More: <span className="people-groups row any">{more}</span>,
      }}
    />
  );
}

const ON_A_PAGE = 50;

/** Everybody the gateway knows, what they are signed in with, and who was turned away. */
export function Page() {
  const [{ search, after, user }, change] = usePageSearch();
  const people = useOperation('listPeople', { limit: ON_A_PAGE, ...(search && { search }), ...(after && { after }) });
  return (
    <>
      <PageHead
        title="People"
        intro="Everybody the gateway knows: what they are signed in with, and what can be ended."
      />
      <Card>
        <search className="people-search">
          <SearchField
            label="Find somebody"
            maxLength={200}
            placeholder="Part of an address or a name"
            value={search ?? ''}
            onSet={(text) => change({ search: text, after: undefined })}
          />
        </search>
        <List
          query={people}
          rows={(answer) => answer.people}
          turn="after"
          label="People"
          columns={PEOPLE_COLUMNS}
          keyOf={({ email }) => email}
          onOpen={({ email }) => change({ user: email })}
          isOpen={({ email }) => email === user}
          empty={<Nobody is_searched={search !== undefined && search !== ''} />}
        />
      </Card>
      <Card title="Refused sign-ins">
        <RefusedSignIns />
      </Card>
      {user && <PersonDrawer key={user} email={user} onClose={() => change({ user: undefined })} />}
    </>
  );
}

function Nobody({ is_searched }: { is_searched: boolean }) {
  if (is_searched) return <EmptyState title="Nobody is called that">Try a shorter part of the address.</EmptyState>;
  return (
    <EmptyState title="Nobody has signed in or had an access token yet">
      People appear here when they sign in, or when you make an access token for their address.
    </EmptyState>
  );
}

/** Where whoever looks is signed in, and how to end that. */
export function MySessions() {
  const { person } = useSession();
  const [is_asked, ask] = useState(false);
  return (
    <>
      <PageHead
        title="My sessions"
        intro="Programs and browsers that are signed in as you. Do you not know one of them? End it, and tell your administrator."
      >
        <Button onClick={() => ask(true)}>Sign out everywhere else</Button>
      </PageHead>
      <Card>
        <SessionTable user={person.email} ended={false} />
      </Card>
      {is_asked && <EndOthers onClose={() => ask(false)} />}
    </>
  );
}

function EndOthers({ onClose }: { onClose: () => void }) {
  return (
    <ChangeDialog
      operation="endSessions"
      input={{ keep: 'current' }}
      done={({ sessions }) => [
        sessions === 0 ? 'There was no other session.' : `Ended ${counted(sessions, 'session')}.`,
      ]}
      onClose={onClose}
      title="Sign out everywhere else?"
      action="Sign out everywhere else"
      kind="danger"
    >
      <p>
        Programs and other browsers that are signed in as you lose access within a second, and ask you to sign in again.
        This browser stays, and so do your access tokens.
      </p>
    </ChangeDialog>
  );
}
