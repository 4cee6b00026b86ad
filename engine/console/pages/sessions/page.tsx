import { useState } from 'react';
import { useChange } from '../../api/queries.ts';
import { useSession } from '../../frame/session-context.ts';
import { Button } from '../../parts/button.tsx';
import { FormDialog } from '../../parts/dialog.tsx';
import { counted } from '../../parts/numbers.tsx';
import { Card, PageHead } from '../../parts/page-head.tsx';
import { useTell } from '../../parts/tell.tsx';
import '../people/people.css';
import { SessionTable } from '../people/session-table.tsx';

/** Where whoever looks is signed in, and how to end that. */
export function Page() {
  const { person } = useSession();
  const [is_asked, ask] = useState(false);
  return (
    <>
      <PageHead
        title="My sessions"
        intro="Programs and browsers that are signed in as you. Do you not know one of them? End it, and tell your administrator."
      >
        <Button onClick={() => ask(true)}>Sign out everywhere else</Button>
      </PageHead>
      <Card>
        <SessionTable user={person.email} ended={false} />
      </Card>
      {is_asked && <EndOthers onClose={() => ask(false)} />}
    </>
  );
}

function EndOthers({ onClose }: { onClose: () => void }) {
  const end = useChange('endSessions');
  const tell = useTell();
  const submit = () =>
    end.mutate(
      { keep: 'current' },
      {
        onSuccess({ sessions }) {
          onClose();
          tell(sessions === 0 ? 'There was no other session.' : `Ended ${counted(sessions, 'session')}.`);
        },
      },
    );
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title="Sign out everywhere else?"
      action="Sign out everywhere else"
      kind="danger"
      is_busy={end.isPending}
      problem={end.error}
      onSubmit={submit}
    >
      <p>
        Programs and other browsers that are signed in as you lose access within a second, and ask you to sign in again.
        This browser stays, and so do your access tokens.
      </p>
    </FormDialog>
  );
}
