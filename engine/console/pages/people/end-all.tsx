import { useChange } from '../../api/queries.ts';
import { FormDialog } from '../../parts/dialog.tsx';
import { counted } from '../../parts/numbers.tsx';
import { useTell } from '../../parts/tell.tsx';
import { type Person, sessionsInWords } from './people-table.tsx';

/** Asks whether all sessions of somebody are to end. */
export function EndAll({ person, onClose }: { person: Person; onClose: () => void }) {
  const { email, client_sessions, console_sessions } = person;
  const end = useChange('endSessions');
  const tell = useTell();
  const submit = () =>
    end.mutate(
      { user: email },
      {
        onSuccess({ sessions }) {
          onClose();
          tell(`Ended of ${email}: ${counted(sessions, 'session')}.`);
        },
      },
    );
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`End all sessions of ${email}?`}
      action="End all sessions"
      kind="danger"
      is_busy={end.isPending}
      problem={end.error}
      onSubmit={submit}
    >
      <p>
        Signed out within a second: {sessionsInWords(client_sessions, console_sessions)}. Access tokens go on working,
        and {email} can sign in again.
      </p>
    </FormDialog>
  );
}
