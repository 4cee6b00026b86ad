import { useEffect, useState } from 'react';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Card, PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
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
        <div className="people-search">
          <SearchField
            value={search ?? ''}
            onChange={(text) => change({ search: text, after: undefined }, { replace: true })}
          />
        </div>
        <Loaded query={people}>
          {({ people: found, next }) =>
            found.length === 0 ? (
              <Nobody is_searched={search !== undefined && search !== ''} />
            ) : (
              <>
                <PeopleTable people={found} open={user} onOpen={(email) => change({ user: email })} />
                <div className="people-pages">
                  {after !== undefined && <Button onClick={() => change({ after: undefined })}>First page</Button>}
                  {next !== null && <Button onClick={() => change({ after: next })}>Next page</Button>}
                </div>
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

/** How long after the last key it is searched. */
const PAUSE_MS = 250;

function SearchField({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const [text, setText] = useState(value);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onChange(text.trim()), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <TextField
      label="Find somebody"
      type="search"
      value={text}
      maxLength={200}
      placeholder="Part of an address or a name"
      onChange={({ target }) => setText(target.value)}
    />
  );
}

function Nobody({ is_searched }: { is_searched: boolean }) {
  if (is_searched) return <EmptyState title="Nobody is called that">Try a shorter part of the address.</EmptyState>;
  return (
    <EmptyState title="Nobody has signed in or had an access token yet">
      People appear here when they sign in (appscli login), or when you make an access token for their address.
    </EmptyState>
  );
}
