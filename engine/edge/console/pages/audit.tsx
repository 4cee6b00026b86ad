import { usePageSearch, useSession } from '../api.ts';
import { type Change, type RefusedSignIn, WORDS } from '../operations.ts';
import { Panel } from '../parts/dialog.tsx';
import { type Filter, PERIOD, titleOf } from '../parts/field.tsx';
import { Facts, PageHead, Tabs, To } from '../parts/page.tsx';
import { RefusedSignIns } from '../parts/refused-sign-ins.tsx';
import { type Columns, ListPage } from '../parts/table.tsx';
import { mono, say, soft, TimeText } from '../parts/words.tsx';

/** Audit page: changes and rejected sign-ins, with exports. */
export function Page() {
  const [{ list }] = usePageSearch();
  const { time_zone } = useSession();
  const is_refusals = list === 'refused';
  return (
    <>
      <PageHead
        title="Audit"
        intro={say`Changes and rejected sign-ins. Model requests are under ${<To page={['/requests']}>Requests</To>}. Times are in ${time_zone}.`}
      />
      <Tabs
        label="Lists"
        path="/audit"
        tabs={[
          { text: 'Changes', search: {}, is_shown: !is_refusals },
          { text: 'Rejected sign-ins', search: { list: 'refused' }, is_shown: is_refusals },
        ]}
      />
      {is_refusals ? <Refusals /> : <Changes />}
    </>
  );
}

const CHANGE_FILTERS: readonly Filter[] = [
  ...PERIOD,
  { name: 'actor' },
  { name: 'subject' },
  { name: 'action', options: [['', 'All'], ...Object.entries(WORDS.Action)] },
];

const CHANGE_COLUMNS: Columns<Change> = [
  { title: 'When', cell: 'at' },
  { title: 'What happened', cell: ({ words }) => <span className="audit-words any">{words}</span> },
  { title: 'Action', cell: ({ action }) => <code className="time soft">{action}</code> },
];

function Changes() {
  return (
    <ListPage
      operation="listChanges"
      title="Changes"
      files={{ CSV: 'exportChangesCsv', 'JSON lines': 'exportChanges' }}
      filters={CHANGE_FILTERS}
      clear="Show all"
      page={50}
      columns={CHANGE_COLUMNS}
      narrowed={['No matching changes', 'Actor and subject match whole words; clear a field to find more.']}
      empty={['No changes yet', 'Changes to tokens, limits, people and upstreams appear here.']}
      opens="open"
      drawer={(change, close) => <ChangeDrawer change={change} onClose={close} />}
    />
  );
}

const KINDS: Readonly<Record<Change['actor']['kind'], string>> = {
  person: 'a signed-in person',
  command: 'a local command',
  gateway: 'the gateway',
  service: 'a service token',
};

function ChangeDrawer({ change, onClose }: { change: Change; onClose: () => void }) {
  const { id, at, actor, action, subject, words, before, after } = change;
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return (
    <Panel kind="drawer" onClose={onClose} title={WORDS.Action[action]}>
      <p className="large any">{words}</p>
      <Facts
        of={{
          When: <TimeText at={at} form="long" />,
          By: say`${<To page={['/audit', { actor: actor.name }]}>{actor.name}</To>} ${soft(`(${KINDS[actor.kind]})`)}`,
          Subject: <To page={['/audit', { subject }]}>{subject}</To>,
          Action: say`${mono(action)}, change ${id}`,
        }}
      />
      {names.length > 0 && (
        <section aria-label="Recorded values">
          <Facts
            of={Object.fromEntries(
              names.map((name) => [titleOf(name), <Value key={name} before={before?.[name]} after={after?.[name]} />]),
            )}
          />
        </section>
      )}
      <Further change={change} />
    </Panel>
  );
}

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

function personIn({ action, subject, before, after }: Change): string | undefined {
  const user = [before?.user, after?.user].find((each) => typeof each === 'string');
  if (typeof user === 'string') return user;
  if (action.startsWith('person.')) return subject;
  const limited = [before?.to, after?.to, action.startsWith('limit.') ? subject : undefined].find(
    (text): text is string => typeof text === 'string',
  );
  return limited === undefined ? undefined : /^user (\S+@\S+)/.exec(limited)?.[1];
}

const PAGES_ABOUT = [
  ['/people', 'Sign-ins and sessions'],
  ['/tokens', 'Access tokens'],
  ['/limits', 'Limits'],
  ['/requests', 'Requests'],
] as const;

function Further({ change }: { change: Change }) {
  const user = personIn(change);
  if (change.action.startsWith('upstream.')) return <To page={['/upstreams']}>Upstreams</To>;
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

function Refusals() {
  return (
    <RefusedSignIns
      files={{ CSV: 'exportRefusedSignInsCsv', 'JSON lines': 'exportRefusedSignIns' }}
      note="Kept for 14 days, the last ten per address."
      filters={[...PERIOD, { name: 'user', label: 'Who' }]}
      clear="Show all"
      page={50}
      opens="open"
      drawer={(refusal, close) => <RefusalDrawer refusal={refusal} onClose={close} />}
    />
  );
}

function RefusalDrawer({ refusal, onClose }: { refusal: RefusedSignIn; onClose: () => void }) {
  const { at, email, subject, issuer, client, client_address, request_id, refused, detail, groups, expected } = refusal;
  return (
    <Panel kind="drawer" onClose={onClose} title={`Rejected: ${email || subject || 'unknown'}`}>
      <p className="large any">{WORDS.RefusalReason[refused]}</p>
      <Facts
        of={{
          When: <TimeText at={at} form="long" />,
          Details: detail,
          'Groups received': groups.join(', ') || 'none',
          'Groups required': expected.join(', '),
          Account: subject,
          'Identity provider': issuer,
          Program: client,
          Address: client_address,
          Request: request_id,
        }}
      />
      {email !== '' && <To page={['/people', { user: email }]}>{`Details of ${email}`}</To>}
    </Panel>
  );
}
