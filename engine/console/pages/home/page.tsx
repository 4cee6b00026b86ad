import { useSession } from '../../frame/session-context.ts';
import { PageHead } from '../../parts/page-head.tsx';
import { Connect } from './connect.tsx';
import { Mine } from './mine.tsx';
import { State } from './state.tsx';
import './home.css';

/** What one wants to know first: for administrators how the gateway is, for everybody what is theirs and how to begin. */
export function Page() {
  const { person, time_zone } = useSession();
  return (
    <>
      <PageHead title="Home" intro={`Days and weeks begin at midnight, ${time_zone}.`} />
      {person.is_admin && <State />}
      <Mine />
      <Connect />
    </>
  );
}
