import { type AnswerOf, addressOf, type InputOf, usePageSearch, useSession } from '../api.ts';
import { Facts, mono, PageHead, say, Tabs, TimeText, To } from '../parts/basic.tsx';
import { Panel } from '../parts/dialog.tsx';
import type { Filter } from '../parts/field.tsx';
import { type Columns, Files, ListPage } from '../parts/table.tsx';
import { beginningOf } from '../ranges.ts';

/** Who changed what, and who was turned away at sign-in; each can be taken along as a file. */
export function Page() {
  const [{ list }] = usePageSearch();
  const { time_zone } = useSession();
  const is_refusals = list === 'refused';
  return (
    <>
      <PageHead
        title="Audit"
        intro={
          <>
            Who changed what, and who was turned away. What was asked of models is under{' '}
            <To page={['/requests']}>Requests</To>. Times are those of {time_zone}.
          </>
        }
      />
      <Tabs
        label="Lists"
        path="/audit"
        tabs={[
          { text: 'Changes', search: {}, is_shown: !is_refusals },
          { text: 'Refused sign-ins', search: { list: 'refused' }, is_shown: is_refusals },
        ]}
      />
      {is_refusals ? <Refusals /> : <Changes />}
    </>
  );
}

/** The period that an address asks for: its days are those of the gateway, the last one included. */
function usePeriod() {
  const [{ since, until }] = usePageSearch();
  const { time_zone } = useSession();
  return {
    since: beginningOf(since || undefined, time_zone),
    until: beginningOf(until || undefined, time_zone, 1),
  };
}

const PERIOD: readonly Filter[] = [
  { name: 'since', label: 'From', is_date: true },
  { name: 'until', label: 'To (included)', is_date: true },
];

type Change = AnswerOf<'listChanges'>['changes'][number];

/** What can be done, for people. */
const ACTIONS: Readonly<Record<Change['action'], string>> = {
  'token.create': 'Access token made',
  'token.rotate': 'Access token replaced',
  'token.revoke': 'Access token revoked',
  'token.move': 'Access token moved',
  'session.end': 'Session ended',
  'person.deprovision': 'Person deprovisioned',
  'person.suspend': 'Person suspended',
  'person.rebind': 'Address given to an account',
  'limit.set': 'Limit set',
  'limit.clear': 'Limit cleared',
  'limit.grant': 'Grant given',
  'limit.revoke': 'Grant taken back',
  'service_token.create': 'Service token made',
  'service_token.rotate': 'Service token replaced',
  'service_token.revoke': 'Service token revoked',
  'upstream.drain': 'Upstream drained',
  'upstream.resume': 'Upstream resumed',
  'ledger.reprice': 'Ledger priced anew',
};

const CHANGE_FILTERS: readonly Filter[] = [
  ...PERIOD,
  { name: 'actor', label: 'By whom' },
  { name: 'subject', label: 'To whom or what' },
  { name: 'action', label: 'What', options: [['', 'Everything'], ...Object.entries(ACTIONS)] },
];

const CHANGE_COLUMNS: Columns<Change> = [
  { title: 'When', cell: 'at' },
  { title: 'What happened', cell: ({ words }) => <span className="audit-words any">{words}</span> },
  { title: 'Action', cell: ({ action }) => <code className="time soft">{action}</code> },
];

function Changes() {
  const [{ actor, action, subject }] = usePageSearch();
  const input = { ...usePeriod(), actor, action: (action || undefined) as InputOf<'listChanges'>['action'], subject };
  return (
    <ListPage
      operation="listChanges"
      input={input}
      title="Changes"
      actions={
        <Files of={{ CSV: addressOf('exportChangesCsv', input), 'JSON lines': addressOf('exportChanges', input) }} />
      }
      filters={CHANGE_FILTERS}
      clear="Show all"
      page={50}
      lines={8}
      columns={CHANGE_COLUMNS}
      narrowed={['No change is like that.', 'Names are looked for as whole words; leave a field empty to find more.']}
      empty={[
        'Nothing was changed yet.',
        'Who makes a token, gives a grant or drains an upstream is written down here.',
      ]}
      opens="open"
      drawer={(change, close) => <ChangeDrawer change={change} onClose={close} />}
    />
  );
}

const KINDS: Readonly<Record<Change['actor']['kind'], string>> = {
  person: 'a person who signed in',
  command: 'somebody at a command line',
  gateway: 'the gateway itself',
  service: 'a service token',
};

/** All that is known of one change, and where to look further. */
function ChangeDrawer({ change, onClose }: { change: Change; onClose: () => void }) {
  const { id, at, actor, action, subject, words, before, after } = change;
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return (
    <Panel kind="drawer" onClose={onClose} title={ACTIONS[action] ?? action}>
      <p className="large any">{words}</p>
      <Facts
        of={{
          When: <TimeText at={at} form="long" />,
          By: (
            <>
              <To page={['/audit', { actor: actor.name }]}>{actor.name}</To>{' '}
              <span className="soft">({KINDS[actor.kind]})</span>
            </>
          ),
          Of: <To page={['/audit', { subject }]}>{subject}</To>,
          Action: say`${mono(action)}, change ${id}`,
        }}
      />
      {names.length > 0 && (
        <section aria-label="What was written down">
          <Facts
            of={Object.fromEntries(
              names.map((name) => [
                name.replaceAll('_', ' '),
                <Value key={name} before={before?.[name]} after={after?.[name]} />,
              ]),
            )}
          />
        </section>
      )}
      <Further change={change} />
    </Panel>
  );
}

/** Both values where it had another one before. */
function Value({ before, after }: { before: unknown; after: unknown }) {
  if (before === undefined || after === undefined) return valueWords(after ?? before);
  return (
    <>
      <span className="soft">{valueWords(before)}</span> <span className="unseen">then</span>
      <span aria-hidden="true">→</span> {valueWords(after)}
    </>
  );
}

function valueWords(value: unknown): string {
  if (value === null) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The person a change is about, by their address; `undefined` where it names none. */
function personIn({ action, subject, before, after }: Change): string | undefined {
  const user = [before?.user, after?.user].find((each) => typeof each === 'string');
  if (typeof user === 'string') return user;
  if (action.startsWith('person.')) return subject;
  const limited = [before?.to, after?.to, action.startsWith('limit.') ? subject : undefined].find(
    (text): text is string => typeof text === 'string',
  );
  return limited === undefined ? undefined : /^user (\S+@\S+)/.exec(limited)?.[1];
}

/** Other pages about the same person. */
const PAGES_ABOUT = [
  ['/people', 'Sign-ins and sessions'],
  ['/tokens', 'Access tokens'],
  ['/limits', 'Limits'],
  ['/requests', 'Requests'],
] as const;

function Further({ change }: { change: Change }) {
  const user = personIn(change);
  if (change.action.startsWith('upstream.')) return <To page={['/upstreams']}>How upstreams are now</To>;
  if (user === undefined) return null;
  return (
    <nav aria-label="More about this person">
      <ul className="stack near">
        <li>
          <To page={['/audit', { subject: user }]}>{`All changes about ${user}`}</To>
        </li>
        {PAGES_ABOUT.map(([path, title]) => (
          <li key={path}>
            <To page={[path, { user }]}>{title}</To>
          </li>
        ))}
      </ul>
    </nav>
  );
}

type Refusal = AnswerOf<'listRefusedSignIns'>['refused_sign_ins'][number];

const REFUSAL_COLUMNS: Columns<Refusal> = [
  { title: 'When', cell: 'at' },
  { title: 'Who', cell: ({ email, subject }) => email || subject || 'not told' },
  { title: 'Why', cell: ({ detail }) => <span className="audit-words any">{detail}</span> },
  { title: 'Program', cell: 'client' },
];

function Refusals() {
  const [{ user }] = usePageSearch();
  const input = { ...usePeriod(), user };
  const files = {
    CSV: addressOf('exportRefusedSignInsCsv', input),
    'JSON lines': addressOf('exportRefusedSignIns', input),
  };
  return (
    <ListPage
      operation="listRefusedSignIns"
      input={input}
      title="Refused sign-ins"
      actions={<Files of={files} />}
      note="Kept for 14 days, the last ten of each address."
      filters={[...PERIOD, { name: 'user', label: 'Who' }]}
      clear="Show all"
      page={50}
      lines={8}
      columns={REFUSAL_COLUMNS}
      empty={[
        'Nobody was turned away.',
        'Who is in none of the groups that are let in, or whose account is not the one of the address, is written down here with the reason.',
      ]}
      opens="open"
      drawer={(refusal, close) => <RefusalDrawer refusal={refusal} onClose={close} />}
    />
  );
}

function RefusalDrawer({ refusal, onClose }: { refusal: Refusal; onClose: () => void }) {
  const { at, email, subject, issuer, client, client_address, request_id, detail, groups, expected } = refusal;
  return (
    <Panel kind="drawer" onClose={onClose} title={`Refused: ${email || subject || 'somebody'}`}>
      <p className="large any">{detail}</p>
      <Facts
        of={{
          When: <TimeText at={at} form="long" />,
          'Groups that came': groups.join(', ') || 'none',
          'Groups let in': expected.join(', '),
          Account: subject,
          'Identity provider': issuer,
          Program: client,
          Address: client_address,
          Request: request_id,
        }}
      />
      {email !== '' && <To page={['/people', { user: email }]}>{`What is known of ${email}`}</To>}
    </Panel>
  );
}
