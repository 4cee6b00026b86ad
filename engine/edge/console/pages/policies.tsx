import { type ReactNode, useEffect, useRef } from 'react';
import { type ResponseOf, usePageSearch, useSession } from '../api.ts';
import { Badge, Button, CopyBlock, Query, type Tone } from '../parts/basic.tsx';
import { Filters } from '../parts/field.tsx';
import { Card, EmptyState, Facts, PageHead, To } from '../parts/page.tsx';
import { type Columns, DataTable, ListPage } from '../parts/table.tsx';
import { ago, below, mono, num, say, small, soft, strong, When } from '../parts/words.tsx';

/** A section that scrolls into view and gets focus when its subject changes by a link elsewhere on the page. */
function FocusSection({ label, subject, children }: { label: string; subject: string; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const before = useRef(subject);
  useEffect(() => {
    if (before.current === subject) return;
    before.current = subject;
    if (box.current?.contains(document.activeElement)) return;
    box.current?.scrollIntoView({ block: 'start' });
    box.current?.focus({ preventScroll: true });
  }, [subject]);
  return (
    <div ref={box} tabIndex={-1} role="group" aria-label={label} className="policy-part">
      {children}
    </div>
  );
}

function Here({ search, children }: { search: object; children: ReactNode }) {
  const [before] = usePageSearch();
  return (
    <To page={['/policies', { ...before, ...search }]} resetScroll={false}>
      {children}
    </To>
  );
}

type Effective = ResponseOf<'getEffectivePolicy'>;
type Origin = Effective['origins'][number];
type Fetched = NonNullable<Effective['fetched']>;

const FETCHED: Readonly<Record<Fetched, readonly [tone: Tone, word: string]>> = {
  current: ['good', 'Up to date'],
  older: ['warn', 'Outdated'],
  never: ['plain', 'Never fetched'],
  nothing_meant: ['plain', 'No policy'],
};

const NONE = <span className="soft">none</span>;

const SETTING_COLUMNS: Columns<Origin> = [
  {
    title: 'Setting',
    cell: ({ path, is_item }) => say`${mono(path.join('.'))}${is_item && small(' (list item)')}`,
    sort: ({ path }) => path.join('.'),
  },
  { title: 'Value', cell: ({ value }) => <code className="any">{JSON.stringify(value)}</code> },
  {
    title: 'From',
    cell: ({ policy, file, line }) => say`${policy} ${small(`${file}:${line}`)}`,
    sort: 'policy',
  },
  {
    title: 'Overrides',
    cell: ({ replaces }) => replaces.join(', ') || NONE,
  },
];

const keyOf = ({ path, value }: Origin) => `${path.join('\u0000')} ${JSON.stringify(value)}`;

function EffectivePolicy({ effective, is_own }: { effective: Effective; is_own: boolean }) {
  const { user, policies, settings, origins, models, models_policy, enabled } = effective;
  if (!enabled) {
    return (
      <EmptyState title="Managed policies are disabled">
        Configure <code>policies.managed</code> in gateway.yaml.
      </EmptyState>
    );
  }
  return (
    <div className="stack">
      <Subject effective={effective} is_own={is_own} />
      {settings === null ? (
        <EmptyState title={is_own ? 'No policy applies to you' : `No policy applies to ${user}`}>
          Clients use their own settings.
        </EmptyState>
      ) : (
        <>
          <h3>Policies, later ones override earlier ones</h3>
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
              Allowed models, by {models_policy}:{' '}
              {models.length === 0 ? 'none' : models.map((model) => <code key={model}>{model} </code>)}
            </p>
          )}
          <h3>Settings</h3>
          {origins.length === 0 ? (
            <p className="soft">These policies have no settings.</p>
          ) : (
            <DataTable label="Settings with their origins" columns={SETTING_COLUMNS} rows={origins} keyOf={keyOf} />
          )}
          <details>
            <summary>JSON for clients</summary>
            <CopyBlock label="Settings as JSON" text={JSON.stringify(settings, null, 2)} />
          </details>
        </>
      )}
    </div>
  );
}

function Subject({ effective, is_own }: { effective: Effective; is_own: boolean }) {
  const { user, groups, groups_from, signed_in_at, fetched, fetched_at } = effective;
  const named = groups.length === 0 ? 'in no group' : `in ${groups.join(', ')}`;
  return (
    <Facts
      of={{
        Person: `${user}${is_own ? ' (you)' : ''}`,
        Groups:
          groups_from === 'question'
            ? `${named} (preview)`
            : signed_in_at === null
              ? `${named}: never signed in`
              : say`${named}, as of the sign-in ${ago(signed_in_at)}`,
        Clients:
          fetched !== null &&
          say`${<FetchedBadge fetched={fetched} />} ${fetched_at !== null && soft(say`last fetched ${ago(fetched_at)}`)}`,
      }}
    />
  );
}

function FetchedBadge({ fetched }: { fetched: Fetched }) {
  const [tone, word] = FETCHED[fetched];
  return <Badge tone={tone}>{word}</Badge>;
}

function reasonOf({ by, name }: Effective['policies'][number]['because']): string {
  if (by === 'default') return 'for everyone';
  return by === 'group' ? `for members of ${name}` : `for addresses at ${name}`;
}

const PEOPLE_COLUMNS: Columns<ResponseOf<'listPolicyPeople'>['people'][number]> = [
  { title: 'Person', cell: ({ user }) => <Here search={{ user, groups: undefined }}>{user}</Here> },
  { title: 'Groups', cell: ({ groups }) => <span className="any">{groups.join(', ') || NONE}</span> },
  { title: 'Policies', cell: ({ policies }) => policies.join(', ') || NONE },
  { title: 'Clients', cell: ({ fetched }) => <FetchedBadge fetched={fetched} /> },
  { title: 'Last fetched', cell: ({ fetched_at }) => <When at={fetched_at} /> },
];

type Policy = ResponseOf<'listPolicies'>['policies'][number];

const POLICY_COLUMNS: Columns<Policy> = [
  {
    title: 'Policy',
    cell: ({ name, summary, is_default }) =>
      say`${strong(name)} ${is_default && <Badge>default</Badge>}${<p className="soft">{summary}</p>}`,
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
    cell: ({ is_default, priority }) => (is_default ? soft('lowest') : priority),
    is_number: true,
  },
  { title: 'File', cell: ({ file, version }) => say`${file}${below(`version ${version}`)}` },
];

function audienceOf({ is_default, groups, email_domains }: Policy): string {
  if (is_default) return 'everyone';
  const words = [...groups, ...email_domains.map((domain) => `addresses at ${domain}`)];
  return words.length === 0 ? 'no one' : words.join(', ');
}

function Preview() {
  const [{ user = '', groups = '' }] = usePageSearch();
  const { email } = useSession().person;
  const input = { user: user || email, ...(groups !== '' && { groups }) };
  return (
    <FocusSection label="Effective policy" subject={user}>
      <Card title="Effective policy">
        <Filters
          of={[
            { name: 'user', label: 'E-mail address', placeholder: email },
            { name: 'groups', label: 'Groups, with commas', placeholder: 'of the last sign-in' },
          ]}
        />
        <Query operation="getEffectivePolicy" input={input}>
          {(effective) => <EffectivePolicy effective={effective} is_own={effective.user === email} />}
        </Query>
      </Card>
    </FocusSection>
  );
}

function AdminPage() {
  const [{ policy }, change] = usePageSearch();
  return (
    <>
      <ListPage
        operation="listPolicies"
        title="Policies"
        note="In order of precedence, lowest first: mappings and deny lists merge, other values are replaced."
        every_seconds={60}
        rows={({ enabled, policies }) => (enabled ? policies : [])}
        columns={POLICY_COLUMNS}
        keyOf={({ name }) => name}
        empty={({ enabled }) => [
          enabled ? 'No policies' : 'Managed policies are disabled',
          say`Add policy files to the directory ${mono('policies.managed.directory')} of gateway.yaml; clients fetch their settings at start and every hour.`,
        ]}
      />
      <Preview />
      <FocusSection label="People" subject={policy ?? ''}>
        <ListPage
          operation="listPolicyPeople"
          input={{ policy }}
          title={policy ? `People with ${policy}` : 'People'}
          actions={policy && <Button onClick={() => change({ policy: undefined, after: undefined })}>Show all</Button>}
          page={25}
          columns={PEOPLE_COLUMNS}
          keyOf={({ user }) => user}
          empty={['No people yet', 'People appear here with their first sign-in or access token.']}
        />
      </FocusSection>
    </>
  );
}

/** Policies page: for administrators all policies, for others their own settings. */
export function Page() {
  const { is_admin } = useSession().person;
  return (
    <>
      <PageHead
        title="Policies"
        intro={
          is_admin ? 'Managed settings of clients, by person.' : 'Managed settings of your clients, with their origins.'
        }
      />
      {is_admin ? (
        <AdminPage />
      ) : (
        <Query operation="getEffectivePolicy" title="Settings of your clients">
          {(effective) => <EffectivePolicy effective={effective} is_own />}
        </Query>
      )}
    </>
  );
}
