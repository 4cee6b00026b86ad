import type { UseQueryResult } from '@tanstack/react-query';
import type { FormEvent, ReactNode } from 'react';
import {
  type AnswerOf,
  addressOf,
  type InputOf,
  type PageSearch,
  type ProblemError,
  useOperation,
  usePageSearch,
  useSession,
} from '../api.ts';
import { Button, Card, EmptyState, Facts, PageHead, Tabs, TimeText, To } from '../parts/basic.tsx';
import { Drawer } from '../parts/dialog.tsx';
import { SelectField, TextField } from '../parts/field.tsx';
import { type Column, Files, List } from '../parts/table.tsx';
import { beginningOf } from '../ranges.ts';

const PAGE_ROWS = 50;

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

/** What an address asks for: a period, and the row before which a page begins. */
function useAsked() {
  const [search] = usePageSearch();
  const { time_zone } = useSession();
  const { since, until, before = '' } = search;
  const period = { since: beginningOf(since, time_zone), until: beginningOf(until, time_zone, 1) };
  return { search, period, page: { before: /^\d{1,15}$/.test(before) ? Number(before) : undefined, limit: PAGE_ROWS } };
}

/** A list of records, narrowed by fields that are in the page's address as well, with one of them open beside it. */
function RecordList<Answer extends object, Row extends { readonly id: number }>({
  title,
  files,
  note,
  names,
  fields,
  drawer,
  ...list
}: {
  readonly title: string;
  readonly files: ReactNode;
  readonly note?: string;
  /** What the fields are called, apart from `since` and `until`. */
  readonly names: readonly string[];
  readonly fields: ReactNode;
  readonly query: UseQueryResult<Answer, ProblemError>;
  readonly rows: (answer: Answer) => readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly empty: ReactNode;
  readonly drawer: (row: Row, close: () => void) => ReactNode;
}) {
  const [search, change] = usePageSearch();
  const all = ['since', 'until', ...names];
  const shown = list.query.data && list.rows(list.query.data).find(({ id }) => String(id) === search.open);
  const narrow = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const said = all.map((name) => [name, String(given.get(name) ?? '').trim() || undefined]);
    change({ ...(Object.fromEntries(said) as PageSearch), before: undefined, open: undefined });
  };
  const clear = () => change(Object.fromEntries([...all, 'before', 'open'].map((name) => [name, undefined])));
  return (
    <Card title={title} actions={files}>
      {note !== undefined && <p className="soft small">{note}</p>}
      <form
        // Who comes back by the address or the browser's buttons finds the fields as they were.
        key={all.map((name) => search[name]).join('\n')}
        className="filters audit-filters"
        role="search"
        aria-label={`Narrow the ${title.toLowerCase()}`}
        onSubmit={narrow}
      >
        <TextField label="From" name="since" type="date" defaultValue={search.since?.slice(0, 10)} />
        <TextField label="To (included)" name="until" type="date" defaultValue={search.until?.slice(0, 10)} />
        {fields}
        <Button type="submit">Show</Button>
        {all.some((name) => search[name]) && (
          <Button kind="quiet" onClick={clear}>
            Show all
          </Button>
        )}
      </form>
      <List
        {...list}
        label={title}
        turn="before"
        lines={8}
        onOpen={({ id }) => change({ open: String(id) })}
        isOpen={({ id }) => String(id) === search.open}
      />
      {shown !== undefined && drawer(shown, () => change({ open: undefined }))}
    </Card>
  );
}

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

/** One field of what was changed: its value before and after, where there was one. */
interface ChangedField {
  readonly name: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** What a change tells of each field, those of after it last. */
function fieldsOf({ before, after }: Change): readonly ChangedField[] {
  const [was, is] = [before ?? {}, after ?? {}] as readonly Readonly<Record<string, unknown>>[];
  const names = [...new Set([...Object.keys(was!), ...Object.keys(is!)])];
  return names.map((name) => ({
    name: name.replaceAll('_', ' '),
    before: shown(was![name]),
    after: shown(is![name]),
  }));
}

function shown(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (value === null) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The person a change is about, by their address; `undefined` where it names none. */
function personIn({ action, subject, before, after }: Change): string | undefined {
  const said = [before?.user, after?.user].find((user) => typeof user === 'string');
  if (typeof said === 'string') return said;
  if (action.startsWith('person.')) return subject;
  const limited = [before?.to, after?.to, action.startsWith('limit.') ? subject : undefined].find(
    (text): text is string => typeof text === 'string',
  );
  return limited === undefined ? undefined : /^user (\S+@\S+)/.exec(limited)?.[1];
}

const CHANGE_COLUMNS: readonly Column<Change>[] = [
  { id: 'at', title: 'When', cell: ({ at }) => <TimeText at={at} /> },
  { id: 'words', title: 'What happened', cell: ({ words }) => <span className="audit-words any">{words}</span> },
  { id: 'action', title: 'Action', cell: ({ action }) => <code className="audit-action soft">{action}</code> },
];

const OPTIONS = [
  { value: '', text: 'Everything' },
  ...Object.entries(ACTIONS).map(([value, text]) => ({ value, text })),
];

function Changes() {
  const { search, period, page } = useAsked();
  const { actor, action, subject } = search;
  const wanted = { ...period, actor, action: action as InputOf<'listChanges'>['action'], subject };
  const query = useOperation('listChanges', { ...wanted, ...page });
  const is_narrowed = ['since', 'until', 'actor', 'action', 'subject'].some((name) => search[name]);
  return (
    <RecordList
      title="Changes"
      files={<Files lines={addressOf('exportChanges', wanted)} csv={addressOf('exportChangesCsv', wanted)} />}
      names={['actor', 'action', 'subject']}
      fields={
        <>
          <TextField label="By whom" name="actor" maxLength={254} defaultValue={actor} />
          <TextField label="To whom or what" name="subject" maxLength={254} defaultValue={subject} />
          <SelectField label="What" name="action" options={OPTIONS} defaultValue={action ?? ''} />
        </>
      }
      query={query}
      rows={({ changes }) => changes}
      columns={CHANGE_COLUMNS}
      empty={
        <EmptyState title={is_narrowed ? 'No change is like that.' : 'Nothing was changed yet.'}>
          {is_narrowed
            ? 'Names are looked for as whole words; leave a field empty to find more.'
            : 'Who makes a token, gives a grant or drains an upstream is written down here.'}
        </EmptyState>
      }
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
  const { id, at, actor, action, subject, words } = change;
  const fields = fieldsOf(change);
  const by = (
    <>
      <To page={['/audit', { actor: actor.name }]}>{actor.name}</To> <span className="soft">({KINDS[actor.kind]})</span>
    </>
  );
  const done = (
    <>
      <code>{action}</code>, change {id}
    </>
  );
  return (
    <Drawer onClose={onClose} title={ACTIONS[action] ?? action}>
      <p className="large any">{words}</p>
      <Facts
        of={{
          When: <TimeText at={at} form="long" />,
          By: by,
          Of: <To page={['/audit', { subject }]}>{subject}</To>,
          Action: done,
        }}
      />
      {fields.length > 0 && (
        <section aria-label="What was written down">
          <Facts of={Object.fromEntries(fields.map((field) => [field.name, <Value key={field.name} of={field} />]))} />
        </section>
      )}
      <Further change={change} />
    </Drawer>
  );
}

/** Both values where it had another one before. */
function Value({ of: { before, after } }: { of: ChangedField }) {
  if (before === undefined || after === undefined) return after ?? before;
  return (
    <>
      <span className="soft">{before}</span> <span className="unseen">then</span>
      <span aria-hidden="true">→</span> {after}
    </>
  );
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

const REFUSAL_COLUMNS: readonly Column<Refusal>[] = [
  { id: 'at', title: 'When', cell: ({ at }) => <TimeText at={at} /> },
  { id: 'who', title: 'Who', cell: ({ email, subject }) => email || subject || 'not told' },
  { id: 'why', title: 'Why', cell: ({ detail }) => <span className="audit-words any">{detail}</span> },
  { id: 'client', title: 'Program', cell: ({ client }) => client },
];

function Refusals() {
  const { search, period, page } = useAsked();
  const wanted = { ...period, user: search.user };
  return (
    <RecordList
      title="Refused sign-ins"
      files={
        <Files lines={addressOf('exportRefusedSignIns', wanted)} csv={addressOf('exportRefusedSignInsCsv', wanted)} />
      }
      note="Kept for 14 days, the last ten of each address."
      names={['user']}
      fields={<TextField label="Who" name="user" type="email" maxLength={254} defaultValue={search.user} />}
      query={useOperation('listRefusedSignIns', { ...wanted, ...page })}
      rows={({ refused_sign_ins }) => refused_sign_ins}
      columns={REFUSAL_COLUMNS}
      empty={
        <EmptyState title="Nobody was turned away.">
          Who is in none of the groups that are let in, or whose account is not the one of the address, is written down
          here with the reason.
        </EmptyState>
      }
      drawer={(refusal, close) => <RefusalDrawer refusal={refusal} onClose={close} />}
    />
  );
}

function RefusalDrawer({ refusal, onClose }: { refusal: Refusal; onClose: () => void }) {
  const { at, email, subject, issuer, client, client_address, request_id, detail, groups, expected } = refusal;
  return (
    <Drawer onClose={onClose} title={`Refused: ${email || subject || 'somebody'}`}>
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
    </Drawer>
  );
}
