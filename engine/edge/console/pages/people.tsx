import { useState } from 'react';
import { type AnswerOf, useOperation, usePageSearch, useSession } from '../api.ts';
import {
  ago,
  Badge,
  Button,
  Card,
  counted,
  EmptyState,
  Facts,
  Loaded,
  Opens,
  PageHead,
  Part,
  say,
  soft,
  TimeText,
  To,
  When,
} from '../parts/basic.tsx';
import { OperationForm, Panel } from '../parts/dialog.tsx';
import { type Columns, ListPage } from '../parts/table.tsx';

type Person = AnswerOf<'listPeople'>['people'][number];

const PEOPLE_COLUMNS: Columns<Person> = [
  {
    title: 'Person',
    cell: ({ email, name }) => (
      <span className="people-name stack near any">
        {email}
        {name !== null && <span className="soft small">{name}</span>}
      </span>
    ),
    sort: 'email',
  },
  { title: 'Groups', cell: ({ groups }) => <Groups groups={groups} /> },
  { title: 'Last verified', cell: ({ signed_in_at }) => <When at={signed_in_at} />, sort: 'signed_in_at' },
  {
    title: 'Signed in with',
    cell: (person) => <span className="time">{sessionsInWords(person)}</span>,
    sort: ({ client_sessions, console_sessions }) => client_sessions + console_sessions,
  },
  { title: 'Access tokens', cell: 'tokens', sort: 'tokens', is_number: true },
  { title: 'To know', cell: (person) => <States person={person} /> },
];

type Sessions = Pick<Person, 'client_sessions' | 'console_sessions'>;

/** `2 programs, 1 browser`, without what there is none of. */
function sessionsInWords({ client_sessions: programs, console_sessions: browsers }: Sessions): string {
  const parts = [programs > 0 && counted(programs, 'program'), browsers > 0 && counted(browsers, 'browser')];
  return parts.filter((part) => part !== false).join(', ') || 'nothing';
}

/** The first groups of somebody; all of them are the title. */
function Groups({ groups, shown = 3 }: { groups: readonly string[]; shown?: number }) {
  if (groups.length === 0) return <span className="soft">none</span>;
  const rest = groups.length - shown;
  return (
    <span className="badges row any" title={groups.join(', ')}>
      {groups.slice(0, shown).map((group) => (
        <Badge key={group}>{group}</Badge>
      ))}
      {rest > 0 && <span className="soft small">and {rest} more</span>}
    </span>
  );
}

function States({ person: { is_admin, own_tokens_suspended, open_to_sign_in, refused_at } }: { person: Person }) {
  return (
    <span className="badges row any">
      {is_admin && <Badge tone="info">Administrator</Badge>}
      {own_tokens_suspended && <Badge tone="warn">Tokens suspended</Badge>}
      {open_to_sign_in && <Badge tone="warn">Address is free</Badge>}
      {refused_at !== null && <Badge tone="warn">Refused lately</Badge>}
    </span>
  );
}

type Refused = AnswerOf<'listRefusedSignIns'>['refused_sign_ins'][number];

const REFUSED_COLUMNS: Columns<Refused> = [
  { title: 'When', cell: 'at' },
  { title: 'Who', cell: ({ email }) => email || soft('without an address') },
  { title: 'Why', cell: (refused) => <Why refused={refused} /> },
  { title: 'With', cell: ({ client }) => client || soft('not told') },
  { title: 'From', cell: 'client_address' },
];
const OWN_REFUSED_COLUMNS = REFUSED_COLUMNS.filter((column) => column && column.title !== 'Who');

/** Who was turned away lately, and why; of one person where one is named. */
function RefusedSignIns({ user }: { user?: string }) {
  return (
    <ListPage
      operation="listRefusedSignIns"
      input={{ limit: 20, user }}
      title="Refused sign-ins"
      is_part={user !== undefined}
      lines={2}
      columns={user === undefined ? REFUSED_COLUMNS : OWN_REFUSED_COLUMNS}
      empty={['No sign-in was refused in the last 14 days.']}
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

function EndAll({ person }: { person: Person }) {
  const { email } = person;
  return (
    <OperationForm
      operation="endSessions"
      input={{ user: email }}
      done={({ sessions }) => [`Ended of ${email}: ${counted(sessions, 'session')}.`]}
      title={`End all sessions of ${email}?`}
      action="End all sessions"
      kind="danger"
    >
      <p>
        Signed out within a second: {sessionsInWords(person)}. Access tokens go on working, and {email} can sign in
        again.
      </p>
    </OperationForm>
  );
}

function Deprovision({ person: { email, tokens, own_tokens, ...sessions } }: { person: Person }) {
  return (
    <OperationForm
      operation="deprovision"
      input={{ email }}
      fields={{
        tokens: {
          label: 'Access tokens',
          options: [
            ['all', `Revoke all (${tokens})`],
            ['self_service', `Revoke those of their own making (${own_tokens})`],
            ['none', 'Keep all'],
          ],
          hint: 'What is revoked cannot be brought back.',
        },
        because: { label: 'Reason', hint: 'For the list of changes. May be left empty.' },
      }}
      done={({ sessions: ended, tokens: revoked, service_tokens }) => {
        const words = `Ended of ${email}: ${counted(ended, 'session')}, ${counted(revoked, 'access token')}.`;
        const names = service_tokens.map(({ name }) => name).join(', ');
        if (service_tokens.length === 0) return [words];
        return [`${words} Still in force are service tokens that they answer for: ${names}.`, 'alarm'];
      }}
      title={`Take away the access of ${email}?`}
      action="Take away access"
      kind="danger"
    >
      <p>
        {counted(sessions.client_sessions + sessions.console_sessions, 'session')} end within a second. Whoever the
        identity provider still lets in can sign in again: disable the account there first.
      </p>
    </OperationForm>
  );
}

/** Asks to which account an address is to go. */
function Rebind({ person }: { person: Person }) {
  const { email, subject: former, tokens, client_sessions, console_sessions } = person;
  return (
    <OperationForm
      operation="rebind"
      input={{ email }}
      fields={({ to }) => ({
        to: {
          label: 'To',
          options: [
            ['next', 'The next account that signs in with the address'],
            ['subject', 'One account, by its identifier'],
          ],
        },
        ...(to === 'subject' && {
          subject: {
            label: 'Identifier of the account',
            required: true,
            hint: 'What the identity provider calls it: the claim sub.',
          },
        }),
        tokens: {
          label: `Access tokens (${tokens} in force)`,
          options: [
            ['', "Revoke them where they may be somebody else's"],
            ['keep', 'Keep them: it is the same person'],
            ['revoke', 'Revoke them: it is another person'],
          ],
          hint: "They may be somebody else's where another account of the same identity provider had the address.",
        },
      })}
      done={({ sessions, tokens: revoked }, { subject }) => {
        const whose = subject === undefined ? 'the next account that signs in with it' : `the account ${subject}`;
        return [
          `${email} goes to ${whose}. Ended: ${counted(sessions, 'session')}, ${counted(revoked, 'access token')}.`,
        ];
      }}
      title={`Give ${email} to another account?`}
      action="Give the address away"
      kind="danger"
    >
      <p>
        {former === null ? 'No account has the address yet. ' : `The account ${former} loses the address. `}
        {counted(client_sessions + console_sessions, 'session')} end within a second. Limits, and what was spent, stay
        with the address.
      </p>
    </OperationForm>
  );
}

type Session = AnswerOf<'listSessions'>['sessions'][number];

const SESSION_COLUMNS: Columns<Session> = [
  { title: 'Signed in with', cell: (session) => <Program session={session} /> },
  { title: 'Since', cell: 'created_at', sort: 'created_at' },
  {
    title: 'Last seen',
    cell: ({ seen_at, created_at }) => <TimeText at={seen_at ?? created_at} form="relative" />,
    sort: ({ seen_at, created_at }) => seen_at ?? created_at,
  },
  {
    title: 'Ends',
    cell: ({ revoked_at, revoked_because, expires_at }) =>
      revoked_at === null ? (
        <TimeText at={expires_at} form="relative" />
      ) : (
        <span className="stack near any">
          <TimeText at={revoked_at} />
          <span className="soft small">{revoked_because}</span>
        </span>
      ),
  },
  {
    title: 'Action',
    cell: (session) =>
      session.revoked_at === null && (
        <Opens shows={<EndSession session={session} />} aria-label={`End the session of ${programOf(session)}`}>
          End
        </Opens>
      ),
  },
];

function SessionTable({ user, ended = false }: { user: string; ended?: boolean }) {
  return (
    <ListPage
      operation="listSessions"
      input={{ user, ended: ended ? 'true' : 'false', limit: 200 }}
      title="Sessions"
      is_part
      lines={2}
      columns={SESSION_COLUMNS}
      empty={['Signed in nowhere', 'Sessions begin when somebody signs in, here or in a terminal.']}
    />
  );
}

function Program({ session }: { session: Session }) {
  const { kind, current, refused_at, refused_from, client_address } = session;
  return (
    <span className="stack near any">
      <span className="badges row any">
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

function EndSession({ session }: { session: Session }) {
  const { id, kind, current } = session;
  const ends = current
    ? 'It is the one you use now: this browser is signed out.'
    : kind === 'console'
      ? `${programOf(session)} is signed out of the console within a second.`
      : `${programOf(session)} loses access within a second, and asks to sign in again. Access tokens stay.`;
  return (
    <OperationForm
      operation="endSession"
      input={{ id }}
      done={() => ['The session has ended.']}
      title="End this session?"
      action="End session"
      kind="danger"
    >
      <p>{ends}</p>
    </OperationForm>
  );
}

/** One person: account, groups, sessions, refusals, and what an administrator can end. */
function PersonDrawer({ email, onClose }: { email: string; onClose: () => void }) {
  const people = useOperation('listPeople', { user: email });
  return (
    <Panel kind="drawer" onClose={onClose} title={email}>
      <Loaded query={people}>
        {({ people: [person] }) =>
          person === undefined ? (
            <EmptyState title="Nobody here has this address">They never signed in, nor had an access token.</EmptyState>
          ) : (
            <PersonDetails person={person} />
          )
        }
      </Loaded>
    </Panel>
  );
}

function PersonDetails({ person }: { person: Person }) {
  const [with_ended, showEnded] = useState(false);
  const { email, client_sessions, console_sessions } = person;
  return (
    <div className="stack far">
      <PersonFacts person={person} />
      <Part title="Sessions">
        <SessionTable user={email} ended={with_ended} />
        <div className="row">
          <Button kind="quiet" aria-pressed={with_ended} onClick={() => showEnded(!with_ended)}>
            {with_ended ? 'Hide sessions that ended' : 'Show sessions that ended'}
          </Button>
          {client_sessions + console_sessions > 0 && <Opens shows={<EndAll person={person} />}>End all sessions</Opens>}
        </div>
      </Part>
      <Part title="Refused sign-ins">
        <RefusedSignIns user={email} />
      </Part>
      <Part title="When somebody leaves, or an account changes">
        <div className="row">
          <Opens kind="danger" shows={<Deprovision person={person} />}>
            Take away access
          </Opens>
          <Opens shows={<Rebind person={person} />}>Give the address to another account</Opens>
        </div>
      </Part>
    </div>
  );
}

function PersonFacts({ person }: { person: Person }) {
  const { name, groups, issuer, subject, signed_in_at, tokens, own_tokens, own_tokens_suspend_at, email } = person;
  const { is_admin, own_tokens_suspended, open_to_sign_in, refused_at } = person;
  const suspends = own_tokens_suspend_at && say`; suspended ${ago(own_tokens_suspend_at)} unless verified before`;
  const is_odd = is_admin || own_tokens_suspended || open_to_sign_in || refused_at !== null;
  return (
    <Facts
      of={{
        Name: name,
        'To know': is_odd && <States person={person} />,
        Groups: <Groups groups={groups} shown={20} />,
        Account:
          subject === null ? (
            soft('none yet: nobody signed in with the address')
          ) : (
            <span className="people-name stack near any">
              <code>{subject}</code>
              <span className="soft small">{issuer}</span>
            </span>
          ),
        'Last verified': signed_in_at === null ? soft('never') : <TimeText at={signed_in_at} form="long" />,
        'Access tokens': say`${tokens} in force, ${own_tokens} of their own making${suspends}`,
        More: (
          <span className="badges row any">
            {['Requests', 'Tokens', 'Limits', 'Policies'].map((title) => (
              <To key={title} page={[`/${title.toLowerCase()}`, { user: email }]}>
                {title}
              </To>
            ))}
          </span>
        ),
      }}
    />
  );
}

/** Everybody the gateway knows, what they are signed in with, and who was turned away. */
export function Page() {
  const [{ search, user }, change] = usePageSearch();
  return (
    <>
      <PageHead
        title="People"
        intro="Everybody the gateway knows: what they are signed in with, and what can be ended."
      />
      <Card>
        <ListPage
          operation="listPeople"
          input={{ search }}
          title="People"
          is_part
          filters={[
            { name: 'search', label: 'Find somebody', placeholder: 'Part of an address or a name', maxLength: 200 },
          ]}
          page={50}
          columns={PEOPLE_COLUMNS}
          keyOf={({ email }) => email}
          opens="user"
          narrowed={['Nobody is called that', 'Try a shorter part of the address.']}
          empty={[
            'Nobody has signed in or had an access token yet',
            'People appear here when they sign in, or when you make an access token for their address.',
          ]}
        />
      </Card>
      <RefusedSignIns />
      {user && <PersonDrawer key={user} email={user} onClose={() => change({ user: undefined })} />}
    </>
  );
}

/** Where whoever looks is signed in, and how to end that. */
export function MySessions() {
  const { person } = useSession();
  return (
    <>
      <PageHead
        title="My sessions"
        intro="Programs and browsers that are signed in as you. Do you not know one of them? End it, and tell your administrator."
      >
        <Opens shows={<EndOthers />}>Sign out everywhere else</Opens>
      </PageHead>
      <Card>
        <SessionTable user={person.email} />
      </Card>
    </>
  );
}

function EndOthers() {
  return (
    <OperationForm
      operation="endSessions"
      input={{ keep: 'current' }}
      done={({ sessions }) => [
        sessions === 0 ? 'There was no other session.' : `Ended ${counted(sessions, 'session')}.`,
      ]}
      title="Sign out everywhere else?"
      action="Sign out everywhere else"
      kind="danger"
    >
      <p>
        Programs and other browsers that are signed in as you lose access within a second, and ask you to sign in again.
        This browser stays, and so do your access tokens.
      </p>
    </OperationForm>
  );
}
