import type { ReactNode } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { Badge, type Tone } from '../../parts/badge.tsx';
import { CopyBlock } from '../../parts/copy.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';

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

const COLUMNS: readonly Column<Origin>[] = [
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
  { id: 'value', title: 'Value', cell: ({ value }) => <code className="policy-value">{JSON.stringify(value)}</code> },
  {
    id: 'policy',
    title: 'From',
    cell: ({ policy, file, line }) => (
      <>
        {policy}{' '}
        <span className="soft small policy-place">
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
export function EffectivePolicy({ told, is_own }: { told: Effective; is_own: boolean }) {
  const { user, policies, settings, origins, models, models_policy, enabled } = told;
  if (!enabled) {
    return (
      <EmptyState title="Managed policies are not handed out.">
        <code>policies.managed</code> of gateway.yaml says where they are and who gets which.
      </EmptyState>
    );
  }
  return (
    <div className="policy-effective">
      <WhoAsks told={told} is_own={is_own} />
      {settings === null ? (
        <EmptyState title={is_own ? 'No policy is meant for you.' : `No policy is meant for ${user}.`}>
          Clients go on with their own settings.
        </EmptyState>
      ) : (
        <>
          <h3>Policies, the last one having the last word</h3>
          <ol className="policy-order">
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
            <DataTable label="Settings and where each is from" columns={COLUMNS} rows={origins} keyOf={keyOf} />
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
  return (
    <dl>
      <dt>Person</dt>
      <dd>
        {user}
        {is_own && ' (you)'}
      </dd>
      <dt>Groups</dt>
      <dd>
        {groups_from === 'question' ? (
          `${named}, as asked for`
        ) : signed_in_at === null ? (
          `${named}: never signed in`
        ) : (
          <>
            {named}, as of the sign-in <TimeText at={signed_in_at} form="relative" />
          </>
        )}
      </dd>
      {fetched !== null && (
        <>
          <dt>Clients</dt>
          <dd>
            <FetchedBadge fetched={fetched} />{' '}
            {fetched_at !== null && (
              <span className="soft">
                asked last <TimeText at={fetched_at} form="relative" />
              </span>
            )}
          </dd>
        </>
      )}
    </dl>
  );
}

/** Whether the clients of somebody have the settings meant for them. */
export function FetchedBadge({ fetched }: { fetched: Fetched }) {
  return <Badge tone={FETCHED[fetched].tone}>{FETCHED[fetched].word}</Badge>;
}

function reasonOf({ by, name }: Effective['policies'][number]['because']): ReactNode {
  if (by === 'default') return 'is meant for everybody';
  return by === 'group' ? `is meant for members of ${name}` : `is meant for addresses at ${name}`;
}
