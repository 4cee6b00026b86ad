import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Button } from '../../parts/button.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { AskDialog } from './ask-dialog.tsx';
import { Finder, scopesIn } from './finder.tsx';
import { GrantDialog } from './grant-dialog.tsx';
import { Grants } from './grants.tsx';
import { Changed, Nearest, Own } from './limit-lists.tsx';
import { Rules } from './rules.tsx';
import { counterOf } from './words.ts';
import './limits.css';

/** Limits: rules in words, what is nearest to its end, what was set and granted; for developers their own. */
export function Page() {
  const { is_admin } = useSession().person;
  return is_admin ? <AdminPage /> : <OwnPage />;
}

function AdminPage() {
  const [search, change] = usePageSearch();
  const { time_zone } = useSession();
  const of = scopesIn(search);
  const is_narrowed = Object.keys(of).length > 0;
  return (
    <>
      <PageHead
        title="Limits"
        intro={`What may be spent, what is left, and who was given more. Days begin at midnight, ${time_zone}.`}
      >
        <Button kind="primary" onClick={() => change({ grant: 'new' })}>
          Give a grant
        </Button>
      </PageHead>
      <Finder />
      {is_narrowed ? <Own of={of} /> : <Nearest />}
      {!is_narrowed && <Rules />}
      {!is_narrowed && <Changed />}
      <Grants of={of} />
      {search.grant !== undefined && (
        <GrantDialog
          key={search.grant}
          given={counterOf(search.grant)}
          amount={search.amount ?? ''}
          onClose={() => change({ grant: undefined, amount: undefined })}
        />
      )}
    </>
  );
}

function OwnPage() {
  const [search, change] = usePageSearch();
  const { time_zone } = useSession();
  const asked = counterOf(search.ask ?? '');
  return (
    <>
      <PageHead title="Limits" intro={`What you may spend, and what is left. Days begin at midnight, ${time_zone}.`} />
      <Own of={{}} />
      <Grants of={{}} />
      {asked !== undefined && <AskDialog counter={asked} onClose={() => change({ ask: undefined })} />}
    </>
  );
}
