import { Link } from '@tanstack/react-router';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { Button } from '../../parts/button.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { FetchedBadge } from './effective.tsx';
import { useShown } from './use-shown.ts';

const PAGE = 25;

type Person = AnswerOf<'listPolicyPeople'>['people'][number];

const COLUMNS: readonly Column<Person>[] = [
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
  {
    id: 'fetched_at',
    title: 'Asked last',
    cell: ({ fetched_at }) =>
      fetched_at === null ? <span className="soft">never</span> : <TimeText at={fetched_at} form="relative" />,
  },
];

/** Everybody the gateway knows, with the policies meant for them and whether their clients have those. */
export function PolicyPeople() {
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
        <Loaded query={query}>
          {({ people, next }) => (
            <>
              {people.length === 0 ? (
                <EmptyState title="Nobody is here yet.">
                  People appear when they sign in, or have an access token.
                </EmptyState>
              ) : (
                <DataTable
                  label="People and their policies"
                  columns={COLUMNS}
                  rows={people}
                  keyOf={({ user }) => user}
                />
              )}
              <div className="form-actions">
                {after !== undefined && <Button onClick={() => change({ after: undefined })}>First</Button>}
                {next !== null && <Button onClick={() => change({ after: next })}>Next</Button>}
              </div>
            </>
          )}
        </Loaded>
      </Card>
    </div>
  );
}
