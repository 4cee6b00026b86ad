import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { type AnswerOf, useOperation, usePageSearch, useSession } from '../api.ts';
import {
  ago,
  Badge,
  Button,
  Card,
  CopyBlock,
  EmptyState,
  Facts,
  Loaded,
  mono,
  num,
  PageHead,
  say,
  small,
  soft,
  TimeText,
  To,
  type Tone,
  When,
} from '../parts/basic.tsx';
import { Field } from '../parts/field.tsx';
import { type Columns, DataTable, ListPage } from '../parts/table.tsx';

/** A part of the page that a link further down asks something else of: whoever does is moved there. */
function Asked({ label, asked, children }: { label: string; asked: string; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const before = useRef(asked);
  useEffect(() => {
    if (before.current === asked) return;
    before.current = asked;
    if (box.current?.contains(document.activeElement)) return;
    box.current?.scrollIntoView({ block: 'start' });
    box.current?.focus({ preventScroll: true });
  }, [asked]);
  return (
    <div ref={box} tabIndex={-1} role="group" aria-label={label} className="policy-part">
      {children}
    </div>
  );
}

/** A link to the same page with something else in its address. */
function Here({ search, children }: { search: object; children: ReactNode }) {
  const [before] = usePageSearch();
  return (
    <To page={['/policies', { ...before, ...search }]} resetScroll={false}>
      {children}
    </To>
  );
}

type Effective = AnswerOf<'getEffectivePolicy'>;
type Origin = Effective['origins'][number];
type Fetched = NonNullable<Effective['fetched']>;

/** What is known of the clients of somebody, in a word. */
const FETCHED: Readonly<Record<Fetched, readonly [tone: Tone, word: string]>> = {
  current: ['good', 'Has them'],
  older: ['warn', 'Has older ones'],
  never: ['plain', 'Never asked'],
  nothing_meant: ['plain', 'None meant'],
};

const NONE = <span className="soft">none</span>;

const SETTING_COLUMNS: Columns<Origin> = [
  {
    title: 'Setting',
    cell: ({ path, is_item }) => say`${mono(path.join('.'))}${is_item && small(' (one of a list)')}`,
    sort: ({ path }) => path.join('.'),
  },
  { title: 'Value', cell: ({ value }) => <code className="any">{JSON.stringify(value)}</code> },
  {
    title: 'From',
    cell: ({ policy, file, line }) => (
      <>
        {policy}{' '}
        <span className="soft small any">
          {file}:{line}
        </span>
      </>
    ),
    sort: 'policy',
  },
  {
    title: 'In place of',
    cell: ({ replaces }) => (replaces.length === 0 ? soft('nothing') : `that of ${replaces.join(', ')}`),
  },
];

const keyOf = ({ path, value }: Origin) => `${path.join('\u0000')} ${JSON.stringify(value)}`;

/** Which policies somebody gets and why, every setting with where it is from, and whether their clients have them. */
function EffectivePolicy({ effective, is_own }: { effective: Effective; is_own: boolean }) {
  const { user, policies, settings, origins, models, models_policy, enabled } = effective;
  if (!enabled) {
    return (
      <EmptyState title="Managed policies are not handed out.">
        <code>policies.managed</code> of gateway.yaml says where they are and who gets which.
      </EmptyState>
    );
  }
  return (
    <div className="stack">
      <WhoAsks effective={effective} is_own={is_own} />
      {settings === null ? (
        <EmptyState title={is_own ? 'No policy is meant for you.' : `No policy is meant for ${user}.`}>
          Clients go on with their own settings.
        </EmptyState>
      ) : (
        <>
          <h3>Policies, the last one having the last word</h3>
          <ol className="stack">
            {policies.map(({ name, summary, because, file }) => (
              <li key={name}>
                <strong>{name}</strong> {reasonOf(because)} <span className="soft small">{file}</span>
                {summary !== '' && <p className="soft">{summary}</p>}
              </li>
            ))}
          </ol>
          {models !== null && (
            <p>
              Only these models may be used, says {models_policy}:{' '}
              {models.length === 0 ? 'none' : models.map((model) => <code key={model}>{model} </code>)}
            </p>
          )}
          <h3>Settings</h3>
          {origins.length === 0 ? (
            <p className="soft">These policies set nothing.</p>
          ) : (
            <DataTable label="Settings and where each is from" columns={SETTING_COLUMNS} rows={origins} keyOf={keyOf} />
          )}
          <details>
            <summary>As clients get them</summary>
            <CopyBlock label="Settings as JSON" text={JSON.stringify(settings, null, 2)} />
          </details>
        </>
      )}
    </div>
  );
}

function WhoAsks({ effective, is_own }: { effective: Effective; is_own: boolean }) {
  const { user, groups, groups_from, signed_in_at, fetched, fetched_at } = effective;
  const named = groups.length === 0 ? 'in no group' : `in ${groups.join(', ')}`;
  return (
    <Facts
      of={{
        Person: `${user}${is_own ? ' (you)' : ''}`,
        Groups:
          groups_from === 'question'
            ? `${named}, as asked for`
            : signed_in_at === null
              ? `${named}: never signed in`
              : say`${named}, as of the sign-in ${ago(signed_in_at)}`,
        Clients: fetched !== null && (
          <>
            <FetchedBadge fetched={fetched} />{' '}
            {fetched_at !== null && (
              <span className="soft">
                asked last <TimeText at={fetched_at} form="relative" />
              </span>
            )}
          </>
        ),
      }}
    />
  );
}

/** Whether the clients of somebody have the settings meant for them. */
function FetchedBadge({ fetched }: { fetched: Fetched }) {
  const [tone, word] = FETCHED[fetched];
  return <Badge tone={tone}>{word}</Badge>;
}

function reasonOf({ by, name }: Effective['policies'][number]['because']): string {
  if (by === 'default') return 'is meant for everybody';
  return by === 'group' ? `is meant for members of ${name}` : `is meant for addresses at ${name}`;
}

const PEOPLE_COLUMNS: Columns<AnswerOf<'listPolicyPeople'>['people'][number]> = [
  { title: 'Person', cell: ({ user }) => <Here search={{ user, groups: undefined }}>{user}</Here> },
  { title: 'Groups', cell: ({ groups }) => groups.join(', ') || NONE },
  { title: 'Policies', cell: ({ policies }) => policies.join(', ') || NONE },
  { title: 'Clients', cell: ({ fetched }) => <FetchedBadge fetched={fetched} /> },
  { title: 'Asked last', cell: ({ fetched_at }) => <When at={fetched_at} /> },
];

type Policy = AnswerOf<'listPolicies'>['policies'][number];

const POLICY_COLUMNS: Columns<Policy> = [
  {
    title: 'Policy',
    cell: ({ name, summary, is_default }) => (
      <>
        <strong>{name}</strong> {is_default && <Badge>default</Badge>}
        <p className="soft">{summary}</p>
      </>
    ),
    sort: 'name',
  },
  { title: 'For', cell: audienceOf },
  {
    title: 'People',
    cell: ({ name, people }) => <Here search={{ policy: name, after: undefined }}>{num(people)}</Here>,
    sort: 'people',
    is_number: true,
  },
  {
    title: 'Priority',
    cell: ({ is_default, priority }) => (is_default ? soft('below all') : priority),
    is_number: true,
  },
  { title: 'File', cell: ({ file, version }) => <span className="any">{`${file}, version ${version}`}</span> },
];

function audienceOf({ is_default, groups, email_domains }: Policy): string {
  if (is_default) return 'everybody';
  const words = [...groups, ...email_domains.map((domain) => `addresses at ${domain}`)];
  return words.length === 0 ? 'nobody' : words.join(', ');
}

/** What somebody gets, or would get in other groups; the question is in the address. */
function Preview() {
  const [{ user = '', groups = '' }, change] = usePageSearch();
  const { email } = useSession().person;
  const [asked, ask] = useState({ user, groups });
  useEffect(() => ask({ user, groups }), [user, groups]);
  const query = useOperation('getEffectivePolicy', { user: user || email, ...(groups !== '' && { groups }) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change({ user: asked.user.trim(), groups: asked.groups.trim() });
  };
  return (
    <Asked label="What somebody gets" asked={user}>
      <Card title="What somebody gets">
        <form className="filters wide" onSubmit={submit}>
          <Field
            label="E-mail address"
            type="email"
            value={asked.user}
            placeholder={email}
            onValue={(value) => ask({ ...asked, user: value })}
          />
          <Field
            label="Groups, with commas between"
            value={asked.groups}
            placeholder="those of the sign-in"
            onValue={(value) => ask({ ...asked, groups: value })}
          />
          <Button type="submit" kind="primary">
            Preview
          </Button>
        </form>
        <Loaded query={query}>
          {(effective) => <EffectivePolicy effective={effective} is_own={effective.user === email} />}
        </Loaded>
      </Card>
    </Asked>
  );
}

/** Every policy, what somebody gets of them, and everybody with the policies meant for them. */
function AdminPage() {
  const [{ policy }, change] = usePageSearch();
  return (
    <>
      <ListPage
        operation="listPolicies"
        title="Policies"
        note="In the order in which they are laid over each other: mappings merge, deny lists are united, everything else is replaced."
        every_seconds={60}
        rows={({ enabled, policies }) => (enabled ? policies : [])}
        columns={POLICY_COLUMNS}
        keyOf={({ name }) => name}
        empty={({ enabled }) => [
          enabled ? 'There are no policies.' : 'Managed policies are not handed out.',
          say`Put a file into a directory and name it under ${mono('policies.managed.directory')} in gateway.yaml; clients ask for their settings when they start and every hour.`,
        ]}
      />
      <Preview />
      <Asked label="People" asked={policy ?? ''}>
        <ListPage
          operation="listPolicyPeople"
          input={{ policy }}
          title={policy ? `People with ${policy}` : 'People'}
          actions={
            policy && <Button onClick={() => change({ policy: undefined, after: undefined })}>Show everybody</Button>
          }
          page={25}
          columns={PEOPLE_COLUMNS}
          keyOf={({ user }) => user}
          empty={['Nobody is here yet.', 'People appear when they sign in, or have an access token.']}
        />
      </Asked>
    </>
  );
}

/** Which managed settings people get: of everybody for administrators, for others their own. */
export function Page() {
  const { is_admin } = useSession().person;
  return (
    <>
      <PageHead
        title="Policies"
        intro={
          is_admin
            ? 'Settings that clients get from the gateway: who gets which, and from where.'
            : 'Settings that your clients get from the gateway, and from where.'
        }
      />
      {is_admin ? <AdminPage /> : <OwnPolicy />}
    </>
  );
}

function OwnPolicy() {
  const query = useOperation('getEffectivePolicy', {});
  return (
    <Card title="What your clients get">
      <Loaded query={query}>{(effective) => <EffectivePolicy effective={effective} is_own />}</Loaded>
    </Card>
  );
}
