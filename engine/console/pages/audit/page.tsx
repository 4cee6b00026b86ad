import './audit.css';
import { Link } from '@tanstack/react-router';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { PageHead } from '../../parts/page-head.tsx';
import { Changes } from './changes.tsx';
import { Refusals } from './refusals.tsx';

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
            <Link to="/requests">Requests</Link>. Times are those of {time_zone}.
          </>
        }
      />
      <nav aria-label="Lists" className="audit-lists">
        <ListLink list={undefined} text="Changes" />
        <ListLink list="refused" text="Refused sign-ins" />
      </nav>
      {is_refusals ? <Refusals /> : <Changes />}
    </>
  );
}

function ListLink({ list, text }: { list: string | undefined; text: string }) {
  return (
    <Link
      to="/audit"
      search={{ list } as never}
      // Of the list that is shown, whatever else is in the address.
      activeOptions={{ includeSearch: true, explicitUndefined: true }}
      className="audit-list"
    >
      {text}
    </Link>
  );
}
