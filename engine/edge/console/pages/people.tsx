import { type ResponseOf, usePageSearch, useSession } from '../api.ts';
import { Badge, Opens, Query } from '../parts/basic.tsx';
import { OperationForm, Panel } from '../parts/dialog.tsx';
import { ENDED, type Filter } from '../parts/field.tsx';
import { Card, EmptyState, Facts, PageHead, Part, To } from '../parts/page.tsx';
import { RefusedSignIns } from '../parts/refused-sign-ins.tsx';
import { type Columns, ListPage } from '../parts/table.tsx';
import { ago, below, counted, mono, say, soft, TimeText, timeAt, When } from '../parts/words.tsx';

type Person = ResponseOf<'listPeople'>['people'][number];

const PEOPLE_COLUMNS: Columns<Person> = [
  { title: 'Person', cell: ({ email, name }) => say`${email}${name !== null && below(name)}`, sort: 'email' },
  { title: 'Groups', cell: ({ groups }) => <Groups groups={groups} /> },
  { title: 'Last verified', cell: ({ signed_in_at }) => <When at={signed_in_at} />, sort: 'signed_in_at' },
  {
    title: 'Signed in with',
    cell: (person) => <span className="time">{sessionsInWords(person)}</span>,
    sort: ({ client_sessions, console_sessions }) => client_sessions + console_sessions,
  },
  { title: 'Access tokens', cell: 'tokens', sort: 'tokens', is_number: true },
  { title: 'Notes', cell: notesOn },
];

type Sessions = Pick<Person, 'client_sessions' | 'console_sessions'>;

function sessionsInWords({ client_sessions: clients, console_sessions: browsers }: Sessions): string {
  const parts = [clients > 0 && counted(clients, 'client'), browsers > 0 && counted(browsers, 'browser')];
  return parts.filter((part) => part !== false).join(', ') || 'none';
}

function allSessions({ client_sessions, console_sessions }: Sessions): string {
  return counted(client_sessions + console_sessions, 'session');
}

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

function notesOn({ is_admin, own_tokens_suspended, open_to_sign_in, refused_at }: Person) {
  if (!is_admin && !own_tokens_suspended && !open_to_sign_in && refused_at === null) return null;
  return (
    <span className="badges row any">
      {is_admin && <Badge tone="info">Administrator</Badge>}
      {own_tokens_suspended && <Badge tone="warn">Tokens suspended</Badge>}
      {open_to_sign_in && <Badge tone="warn">Address unassigned</Badge>}
      {refused_at !== null && <Badge tone="warn">Sign-in rejected</Badge>}
    </span>
  );
}

function EndAll({ person }: { person: Person }) {
  const { email } = person;
  return (
    <OperationForm
      operation="endSessions"
      input={{ user: email }}
      done={({ sessions }) => [`Ended ${counted(sessions, 'session')} of ${email}.`]}
      title={`End all sessions of ${email}?`}
      action="End all sessions"
      kind="danger"
      intro={`Signs out within a second: ${sessionsInWords(person)}. Access tokens stay valid, and ${email} can sign in again.`}
    />
  );
}

function Deprovision({ person }: { person: Person }) {
  const { email, tokens, own_tokens } = person;
  return (
    <OperationForm
      operation="deprovision"
      input={{ email }}
      fields={{
        tokens: {
          label: 'Access tokens',
          options: [
            ['all', `Revoke all (${tokens})`],
            ['self_service', `Revoke self-created (${own_tokens})`],
            ['none', 'Keep all'],
          ],
          hint: 'This cannot be undone.',
        },
        because: { label: 'Reason', hint: 'Optional; recorded in the audit log.' },
      }}
      done={({ sessions: ended, tokens: revoked, service_tokens }) => {
        const words = `Deprovisioned ${email}: ${counted(ended, 'session')} ended, ${counted(revoked, 'access token')} revoked.`;
        const names = service_tokens.map(({ name }) => name).join(', ');
        if (service_tokens.length === 0) return [words];
        return [`${words} Their service tokens are still valid: ${names}.`, 'alarm'];
      }}
      title={`Deprovision ${email}?`}
      action="Deprovision"
      kind="danger"
      intro={`Ends ${allSessions(person)} within a second. First disable the account at the identity provider, otherwise the person can sign in again.`}
    />
  );
}

function Rebind({ person }: { person: Person }) {
  const { email, subject: former, tokens } = person;
  const loses = former === null ? 'No account has the address yet.' : `The account ${former} loses the address.`;
  return (
    <OperationForm
      operation="rebind"
      input={{ email }}
      fields={({ to }) => ({
        to: {
          label: 'To',
          options: [
            ['next', 'Next account that signs in with the address'],
            ['subject', 'Account with an identifier'],
          ],
        },
        ...(to === 'subject' && {
          subject: {
            label: 'Account identifier',
            required: true,
            hint: 'The claim sub of the identity provider.',
          },
        }),
        tokens: {
          label: `Access tokens (${tokens} active)`,
          options: [
            ['', 'Revoke if they may belong to another person'],
            ['keep', 'Keep: it is the same person'],
            ['revoke', 'Revoke: it is another person'],
          ],
          hint: 'They may belong to another person if another account of the same identity provider had the address.',
        },
      })}
      done={({ sessions, tokens: revoked }, { subject }) => {
        const whose = subject === undefined ? 'the next account that signs in with it' : `the account ${subject}`;
        return [
          `Reassigned ${email} to ${whose}: ${counted(sessions, 'session')} ended, ${counted(revoked, 'access token')} revoked.`,
        ];
      }}
      title={`Reassign ${email} to another account?`}
      action="Reassign address"
      kind="danger"
      intro={`${loses} Ends ${allSessions(person)} within a second. Limits and spending stay with the address.`}
    />
  );
}

type Session = ResponseOf<'listSessions'>['sessions'][number];

const SESSION_COLUMNS: Columns<Session> = [
  { title: 'Signed in with', cell: (session) => <Program session={session} /> },
  { title: 'Since', cell: 'created_at', sort: 'created_at' },
  {
    title: 'Last seen',
    cell: ({ seen_at, created_at }) => ago(seen_at ?? created_at),
    sort: ({ seen_at, created_at }) => seen_at ?? created_at,
  },
  {
    title: 'Ends',
    cell: ({ revoked_at, revoked_because, expires_at }) =>
      revoked_at === null ? ago(expires_at) : say`${timeAt(revoked_at)}${below(revoked_because)}`,
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

function SessionTable({ user, filters = [] }: { user: string; filters?: readonly Filter[] }) {
  return (
    <ListPage
      operation="listSessions"
      input={{ user, limit: 200 }}
      title="Sessions"
      is_part
      filters={filters}
      columns={SESSION_COLUMNS}
      empty={['No sessions', 'Sessions begin with a sign-in, here or in a terminal.']}
    />
  );
}

function Program({ session }: { session: Session }) {
  const { kind, current, refused_at, refused_from, client_address } = session;
  return (
    <>
      <span className="badges row any">
        {programOf(session)}
        <Badge>{kind === 'console' ? 'Console' : 'Client'}</Badge>
        {current && <Badge tone="good">This browser</Badge>}
      </span>
      {below(`from ${client_address}`)}
      {refused_at !== null &&
        below(say`Reused refresh token rejected ${ago(refused_at)}, from ${refused_from}. It may have been copied.`)}
    </>
  );
}

function programOf({ client }: Session): string {
  return client === '' ? 'an unknown client' : client;
}

function EndSession({ session }: { session: Session }) {
  const { id, kind, current } = session;
  const ends = current
    ? 'This is your current session: this browser is signed out.'
    : kind === 'console'
      ? `${programOf(session)} is signed out of the console within a second.`
      : `${programOf(session)} loses access within a second and must sign in again. Access tokens stay valid.`;
  return (
    <OperationForm
      operation="endSession"
      input={{ id }}
      done={() => ['The session has ended.']}
      title="End this session?"
      action="End session"
      kind="danger"
      intro={ends}
    />
  );
}

function PersonDrawer({ email, onClose }: { email: string; onClose: () => void }) {
  return (
    <Panel kind="drawer" onClose={onClose} title={email}>
      <Query operation="listPeople" input={{ user: email }}>
        {({ people: [person] }) =>
          person === undefined ? (
            <EmptyState title="Unknown address">It has never signed in or had an access token.</EmptyState>
          ) : (
            <PersonDetails person={person} />
          )
        }
      </Query>
    </Panel>
  );
}

function PersonDetails({ person }: { person: Person }) {
  const { email, client_sessions, console_sessions } = person;
  return (
    <div className="stack far">
      <PersonFacts person={person} />
      <Part title="Sessions">
        <SessionTable user={email} filters={[ENDED]} />
        {client_sessions + console_sessions > 0 && (
          <div>
            <Opens shows={<EndAll person={person} />}>End all sessions</Opens>
          </div>
        )}
      </Part>
      <Part title="Rejected sign-ins">
        <RefusedSignIns input={{ user: email, limit: 20 }} is_part />
      </Part>
      <Part title="When a person leaves or an account changes">
        <div className="row">
          <Opens kind="danger" shows={<Deprovision person={person} />}>
            Deprovision
          </Opens>
          <Opens shows={<Rebind person={person} />}>Reassign address</Opens>
        </div>
      </Part>
    </div>
  );
}

function PersonFacts({ person }: { person: Person }) {
  const { name, groups, issuer, subject, signed_in_at, tokens, own_tokens, own_tokens_suspend_at, email } = person;
  const suspends = own_tokens_suspend_at && say`; suspended ${ago(own_tokens_suspend_at)} unless verified before`;
  return (
    <Facts
      of={{
        Name: name,
        Notes: notesOn(person),
        Groups: <Groups groups={groups} shown={20} />,
        Account:
          subject === null ? soft('none yet: no sign-in with the address') : say`${mono(subject)}${below(issuer)}`,
        'Last verified': signed_in_at === null ? soft('never') : <TimeText at={signed_in_at} form="long" />,
        'Access tokens': say`${tokens} active, ${own_tokens} self-created${suspends}`,
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

/** People page: people with their sessions, and rejected sign-ins. */
export function Page() {
  const [{ user }, change] = usePageSearch();
  return (
    <>
      <PageHead
        title="People"
        intro="Everyone who has signed in or has an access token, with their sessions and tokens."
      />
      <Card>
        <ListPage
          operation="listPeople"
          title="People"
          is_part
          filters={[{ name: 'search', placeholder: 'Part of an address or name' }]}
          page={50}
          columns={PEOPLE_COLUMNS}
          keyOf={({ email }) => email}
          opens="user"
          narrowed={['No matching people', 'Try a shorter part of the address.']}
          empty={['No people yet', 'People appear here with their first sign-in or access token.']}
        />
      </Card>
      <RefusedSignIns input={{ limit: 20 }} />
      {user && <PersonDrawer key={user} email={user} onClose={() => change({ user: undefined, ended: undefined })} />}
    </>
  );
}

/** Page of one's own sessions. */
export function MySessions() {
  const { person } = useSession();
  return (
    <>
      <PageHead
        title="My sessions"
        intro="Programs and browsers that are signed in as you. If you do not recognize one, end it and tell your administrator."
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
        sessions === 0 ? 'There were no other sessions.' : `Ended ${counted(sessions, 'session')}.`,
      ]}
      title="Sign out everywhere else?"
      action="Sign out everywhere else"
      kind="danger"
      intro="Programs and other browsers that are signed in as you lose access within a second. This browser stays signed in, and your access tokens stay valid."
    />
  );
}
