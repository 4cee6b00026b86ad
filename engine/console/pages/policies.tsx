import { Link } from '@tanstack/react-router';
import { type FormEvent, type ReactNode, type RefObject, useEffect, useRef, useState } from 'react';
import { type AnswerOf, useOperation, usePageSearch, useSession } from '../api.ts';
import {
  Badge,
  Button,
  Card,
  CopyBlock,
  Count,
  EmptyState,
  Facts,
  Loaded,
  PageHead,
  TimeText,
  type Tone,
  When,
} from '../parts/basic.tsx';
import { TextField } from '../parts/field.tsx';
import { type Column, DataTable, List } from '../parts/table.tsx';

/** Shows a part of the page, and moves there whoever asked for something else of it by a link further down. */
function useShown(asked: string): RefObject<HTMLDivElement | null> {
  const box = useRef<HTMLDivElement>(null);
  const before = useRef(asked);
  useEffect(() => {
    if (before.current === asked) return;
    before.current = asked;
    if (box.current?.contains(document.activeElement)) return;
    box.current?.scrollIntoView({ block: 'start' });
    box.current?.focus({ preventScroll: true });
  }, [asked]);
  return box;
}

type Effective = AnswerOf<'getEffectivePolicy'>;
type Origin = Effective['origins'][number];
type Fetched = NonNullable<Effective['fetched']>;

/** What is known of the clients of somebody, in a word. */
const FETCHED: Readonly<Record<Fetched, { word: string; tone: Tone }>> = {
  current: { word: 'Has them', tone: 'good' },
  older: { word: 'Has older ones', tone: 'warn' },
  never: { word: 'Never asked', tone: 'plain' },
  nothing_meant: { word: 'None meant', tone: 'plain' },
};

const SETTING_COLUMNS: readonly Column<Origin>[] = [
  {
    id: 'path',
    title: 'Setting',
    cell: ({ path, is_item }) => (
      <>
        <code>{path.join('.')}</code>
        {is_item && <span className="soft small"> (one of a list)</span>}
      </>
    ),
    sort: ({ path }) => path.join('.'),
  },
  { id: 'value', title: 'Value', cell: ({ value }) => <code className="any">{JSON.stringify(value)}</code> },
  {
    id: 'policy',
    title: 'From',
    cell: ({ policy, file, line }) => (
      <>
        {policy}{' '}
        <span className="soft small any">
          {file}:{line}
        </span>
      </>
    ),
    sort: ({ policy }) => policy,
  },
  {
    id: 'replaces',
    title: 'In place of',
    cell: ({ replaces }) =>
      replaces.length === 0 ? <span className="soft">nothing</span> : `that of ${replaces.join(', ')}`,
  },
];

const keyOf = ({ path, value }: Origin) => `${path.join('\u0000')} ${JSON.stringify(value)}`;

/** Which policies somebody gets and why, every setting with where it is from, and whether their clients have them. */
function EffectivePolicy({ told, is_own }: { told: Effective; is_own: boolean }) {
  const { user, policies, settings, origins, models, models_policy, enabled } = told;
  if (!enabled) {
    return (
      <EmptyState title="Managed policies are not handed out.">
        <code>policies.managed</code> of gateway.yaml says where they are and who gets which.
      </EmptyState>
    );
  }
  return (
    <div className="stack">
      <WhoAsks told={told} is_own={is_own} />
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

function WhoAsks({
  told: { user, groups, groups_from, signed_in_at, fetched, fetched_at },
  is_own,
}: {
  told: Effective;
  is_own: boolean;
}) {
  const named = groups.length === 0 ? 'in no group' : `in ${groups.join(', ')}`;
  const since =
    signed_in_at === null ? (
      `${named}: never signed in`
    ) : (
      <>
        {named}, as of the sign-in <TimeText at={signed_in_at} form="relative" />
      </>
    );
  const clients = fetched !== null && (
    <>
      <FetchedBadge fetched={fetched} />{' '}
      {fetched_at !== null && (
        <span className="soft">
          asked last <TimeText at={fetched_at} form="relative" />
        </span>
      )}
    </>
  );
  return (
    <Facts
      of={{
        Person: `${user}${is_own ? ' (you)' : ''}`,
        Groups: groups_from === 'question' ? `${named}, as asked for` : since,
        Clients: clients,
      }}
    />
  );
}

/** Whether the clients of somebody have the settings meant for them. */
function FetchedBadge({ fetched }: { fetched: Fetched }) {
  return <Badge tone={FETCHED[fetched].tone}>{FETCHED[fetched].word}</Badge>;
}

function reasonOf({ by, name }: Effective['policies'][number]['because']): ReactNode {
  if (by === 'default') return 'is meant for everybody';
  return by === 'group' ? `is meant for members of ${name}` : `is meant for addresses at ${name}`;
}

const PAGE = 25;

type Person = AnswerOf<'listPolicyPeople'>['people'][number];

const PEOPLE_COLUMNS: readonly Column<Person>[] = [
  {
    id: 'user',
    title: 'Person',
    cell: ({ user }) => (
      <Link to="." resetScroll={false} search={((before: object) => ({ ...before, user, groups: undefined })) as never}>
        {user}
      </Link>
    ),
  },
  { id: 'groups', title: 'Groups', cell: ({ groups }) => groups.join(', ') || <span className="soft">none</span> },
  {
    id: 'policies',
    title: 'Policies',
    cell: ({ policies }) => policies.join(', ') || <span className="soft">none</span>,
  },
  { id: 'fetched', title: 'Clients', cell: ({ fetched }) => <FetchedBadge fetched={fetched} /> },
  { id: 'fetched_at', title: 'Asked last', cell: ({ fetched_at }) => <When at={fetched_at} /> },
];

/** Everybody the gateway knows, with the policies meant for them and whether their clients have those. */
function PolicyPeople() {
  const [{ policy, after }, change] = usePageSearch();
  const input = { limit: PAGE, ...(policy && { policy }), ...(after && { after }) };
  const query = useOperation('listPolicyPeople', input);
  const box = useShown(policy ?? '');
  return (
    <div ref={box} tabIndex={-1} role="group" aria-label="People" className="policy-part">
      <Card
        title={policy ? `People with ${policy}` : 'People'}
        actions={
          policy && <Button onClick={() => change({ policy: undefined, after: undefined })}>Show everybody</Button>
        }
      >
        <List
          query={query}
          rows={({ people }) => people}
          turn="after"
          label="People and their policies"
          columns={PEOPLE_COLUMNS}
          keyOf={({ user }) => user}
          empty={
            <EmptyState title="Nobody is here yet.">
              People appear when they sign in, or have an access token.
            </EmptyState>
          }
        />
      </Card>
    </div>
  );
}

type Policy = AnswerOf<'listPolicies'>['policies'][number];

const POLICY_COLUMNS: readonly Column<Policy>[] = [
  {
    id: 'name',
    title: 'Policy',
    cell: ({ name, summary, is_default }) => (
      <>
        <strong>{name}</strong> {is_default && <Badge>default</Badge>}
        <p className="soft">{summary}</p>
      </>
    ),
    sort: ({ name }) => name,
  },
  { id: 'for', title: 'For', cell: (policy) => audienceOf(policy) },
  {
    id: 'people',
    title: 'People',
    cell: ({ name, people }) => (
      <Link
        to="."
        resetScroll={false}
        search={((before: object) => ({ ...before, policy: name, after: undefined })) as never}
      >
        <Count of={people} />
      </Link>
    ),
    sort: ({ people }) => people,
    is_number: true,
  },
  {
    id: 'priority',
    title: 'Priority',
    cell: ({ is_default, priority }) => (is_default ? <span className="soft">below all</span> : priority),
    is_number: true,
  },
  {
    id: 'file',
    title: 'File',
    cell: ({ file, version }) => <span className="any">{`${file}, version ${version}`}</span>,
  },
];

function audienceOf({ is_default, groups, email_domains }: Policy): string {
  if (is_default) return 'everybody';
  const words = [...groups, ...email_domains.map((domain) => `addresses at ${domain}`)];
  return words.length === 0 ? 'nobody' : words.join(', ');
}

/** Every policy, in the order in which they are laid over each other. */
function PolicyList() {
  const query = useOperation('listPolicies', {}, { every_seconds: 60 });
  return (
    <Card title="Policies">
      <p className="soft small">
        In the order in which they are laid over each other: mappings merge, deny lists are united, everything else is
        replaced.
      </p>
      <List
        query={query}
        rows={({ enabled, policies }) => (enabled ? policies : [])}
        label="Policies"
        columns={POLICY_COLUMNS}
        keyOf={({ name }) => name}
        empty={
          <EmptyState
            title={query.data?.enabled === false ? 'Managed policies are not handed out.' : 'There are no policies.'}
          >
            Put a file into a directory and name it under <code>policies.managed.directory</code> in gateway.yaml;
            clients ask for their settings when they start and every hour.
          </EmptyState>
        }
      />
    </Card>
  );
}

/** What somebody gets, or would get in other groups; the question is in the address. */
function Preview() {
  const [{ user = '', groups = '' }, change] = usePageSearch();
  const { email } = useSession().person;
  const [asked, ask] = useState({ user, groups });
  useEffect(() => ask({ user, groups }), [user, groups]);
  const shown = user || email;
  const input = { user: shown, ...(groups !== '' && { groups }) };
  const query = useOperation('getEffectivePolicy', input);
  const box = useShown(user);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change({ user: asked.user.trim(), groups: asked.groups.trim() });
  };
  return (
    <div ref={box} tabIndex={-1} role="group" aria-label="What somebody gets" className="policy-part">
      <Card title="What somebody gets">
        <form className="filters policy-question" onSubmit={submit}>
          <TextField
            label="E-mail address"
            type="email"
            value={asked.user}
            placeholder={email}
            onChange={(event) => ask({ ...asked, user: event.target.value })}
          />
          <TextField
            label="Groups, with commas between"
            value={asked.groups}
            placeholder="those of the sign-in"
            onChange={(event) => ask({ ...asked, groups: event.target.value })}
          />
          <Button type="submit" kind="primary">
            Preview
          </Button>
        </form>
        <Loaded query={query}>{(told) => <EffectivePolicy told={told} is_own={told.user === email} />}</Loaded>
      </Card>
    </div>
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
      {is_admin ? (
        <>
          <PolicyList />
          <Preview />
          <PolicyPeople />
        </>
      ) : (
        <OwnPolicy />
      )}
    </>
  );
}

function OwnPolicy() {
  const query = useOperation('getEffectivePolicy', {});
  return (
    <Card title="What your clients get">
      <Loaded query={query}>{(told) => <EffectivePolicy told={told} is_own />}</Loaded>
    </Card>
  );
}
