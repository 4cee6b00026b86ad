import './audit.css';
import { Link } from '@tanstack/react-router';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { PageHead } from '../../parts/page-head.tsx';
import { Tabs } from '../../parts/tabs.tsx';
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
