import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Button } from '../../parts/button.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { CreateDialog } from './create-dialog.tsx';
import { TokenGroups } from './groups.tsx';
import { ServiceTokens } from './service-tokens.tsx';
import { TokenList } from './token-list.tsx';
import './tokens.css';

/** Access tokens per group, and for administrators the service tokens of programs. */
export function Page() {
  const [search, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const is_service = is_admin && search.tab === 'service';
  return (
    <>
      <PageHead
        title="Tokens"
        intro={
          is_admin
            ? 'Access tokens are for the models; service tokens are for programs that use the admin API.'
            : 'Credentials for your clients, one for each device or purpose.'
        }
      >
        <Button kind="primary" onClick={() => change({ create: is_service ? 'service' : 'token' })}>
          {is_service ? 'Create a service token' : 'Create a token'}
        </Button>
      </PageHead>
      {is_admin && (
        <Tabs
          label="Kinds of tokens"
          path="/tokens"
          tabs={[
            { text: 'Access tokens', search: {}, is_shown: !is_service },
            { text: 'Service tokens', search: { tab: 'service' }, is_shown: is_service },
          ]}
        />
      )}
      {is_service ? (
        <ServiceTokens is_creating={search.create !== undefined} onCreated={() => change({ create: undefined })} />
      ) : (
        <>
          <TokenGroups />
          <TokenList />
          {search.create !== undefined && (
            <CreateDialog group={search.group} onClose={() => change({ create: undefined })} />
          )}
        </>
      )}
    </>
  );
}
