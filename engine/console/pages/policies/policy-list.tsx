import { Link } from '@tanstack/react-router';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { Badge } from '../../parts/badge.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Count } from '../../parts/numbers.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';

type Policy = AnswerOf<'listPolicies'>['policies'][number];

const COLUMNS: readonly Column<Policy>[] = [
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
    cell: ({ file, version }) => <span className="policy-place">{`${file}, version ${version}`}</span>,
  },
];

function audienceOf({ is_default, groups, email_domains }: Policy): string {
  if (is_default) return 'everybody';
  const words = [...groups, ...email_domains.map((domain) => `addresses at ${domain}`)];
  return words.length === 0 ? 'nobody' : words.join(', ');
}

/** Every policy, in the order in which they are laid over each other. */
export function PolicyList() {
  const query = useOperation('listPolicies', {}, { every_seconds: 60 });
  return (
    <Card title="Policies">
      <p className="soft small">
        In the order in which they are laid over each other: mappings merge, deny lists are united, everything else is
        replaced.
      </p>
      <Loaded query={query}>
        {({ enabled, policies }) =>
          !enabled || policies.length === 0 ? (
            <EmptyState title={enabled ? 'There are no policies.' : 'Managed policies are not handed out.'}>
              Put a file into a directory and name it under <code>policies.managed.directory</code> in gateway.yaml;
              clients ask for their settings when they start and every hour.
            </EmptyState>
          ) : (
            <DataTable label="Policies" columns={COLUMNS} rows={policies} keyOf={({ name }) => name} />
          )
        }
      </Loaded>
    </Card>
  );
}
