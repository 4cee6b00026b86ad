import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { SearchField } from '../../parts/field.tsx';
import { Card, PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Turn } from '../../parts/turn.tsx';
import './people.css';
import { PeopleTable } from './people-table.tsx';
import { PersonDrawer } from './person-drawer.tsx';
import { RefusedSignIns } from './refused-sign-ins.tsx';

const ON_A_PAGE = 50;

/** Everybody the gateway knows, what they are signed in with, and who was turned away. */
export function Page() {
  const [{ search, after, user }, change] = usePageSearch();
  const people = useOperation('listPeople', { limit: ON_A_PAGE, ...(search && { search }), ...(after && { after }) });
  return (
    <>
      <PageHead
        title="People"
        intro="Everybody the gateway knows: what they are signed in with, and what can be ended."
      />
      <Card>
        <search className="people-search">
          <SearchField
            label="Find somebody"
            maxLength={200}
            placeholder="Part of an address or a name"
            value={search ?? ''}
            onSet={(text) => change({ search: text, after: undefined })}
          />
        </search>
        <Loaded query={people}>
          {({ people: found, next }) =>
            found.length === 0 ? (
              <Nobody is_searched={search !== undefined && search !== ''} />
            ) : (
              <>
                <PeopleTable people={found} open={user} onOpen={(email) => change({ user: email })} />
                <Turn next={next} />
              </>
            )
          }
        </Loaded>
      </Card>
      <Card title="Refused sign-ins">
        <RefusedSignIns />
      </Card>
      <PersonDrawer email={user} onClose={() => change({ user: undefined })} />
    </>
  );
}

function Nobody({ is_searched }: { is_searched: boolean }) {
  if (is_searched) return <EmptyState title="Nobody is called that">Try a shorter part of the address.</EmptyState>;
  return (
    <EmptyState title="Nobody has signed in or had an access token yet">
      People appear here when they sign in, or when you make an access token for their address.
    </EmptyState>
  );
}
