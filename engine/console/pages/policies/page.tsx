import './policies.css';
import { useOperation } from '../../api/queries.ts';
import { useSession } from '../../frame/session-context.ts';
import { Card, PageHead } from '../../parts/page-head.tsx';
import { Loaded } from '../../parts/states.tsx';
import { EffectivePolicy } from './effective.tsx';
import { PolicyPeople } from './people.tsx';
import { PolicyList } from './policy-list.tsx';
import { Preview } from './preview.tsx';

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
