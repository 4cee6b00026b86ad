import { useMemo, useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useChange, useOperation } from '../../api/queries.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { FormDialog } from '../../parts/dialog.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { useTell } from '../../parts/tell.tsx';
import { TimeText } from '../../parts/times.tsx';

/** A session of somebody. */
export type Session = AnswerOf<'listSessions'>['sessions'][number];

const MOST = 200;

const COLUMNS: readonly Column<Session>[] = [
  { id: 'client', title: 'Signed in with', cell: (session) => <Program session={session} /> },
  {
    id: 'created',
    title: 'Since',
    cell: ({ created_at }) => <TimeText at={created_at} />,
    sort: ({ created_at }) => created_at,
  },
  {
    id: 'seen',
    title: 'Last seen',
    cell: ({ seen_at, created_at }) => <TimeText at={seen_at ?? created_at} form="relative" />,
    sort: ({ seen_at, created_at }) => seen_at ?? created_at,
  },
  { id: 'end', title: 'Ends', cell: (session) => <End session={session} /> },
];

/** The sessions of somebody, which can be ended one by one. */
export function SessionTable({ user, ended }: { user: string; ended: boolean }) {
  const sessions = useOperation('listSessions', { user, ended: ended ? 'true' : 'false', limit: MOST });
  const [chosen, choose] = useState<Session>();
  const columns = useMemo<readonly Column<Session>[]>(
    () => [
      ...COLUMNS,
      {
        id: 'do',
        title: 'Action',
        cell: (session) =>
          session.revoked_at === null && (
            <Button onClick={() => choose(session)} aria-label={`End the session of ${programOf(session)}`}>
              End
            </Button>
          ),
      },
    ],
    [],
  );
  return (
    <Loaded query={sessions} lines={2}>
      {({ sessions: found }) => (
        <>
          {found.length === 0 ? (
            <EmptyState title="Signed in nowhere">
              Sessions begin when somebody signs in, here or in a terminal.
            </EmptyState>
          ) : (
            <DataTable label="Sessions" columns={columns} rows={found} keyOf={({ id }) => id} />
          )}
          {chosen !== undefined && <EndSession session={chosen} onClose={() => choose(undefined)} />}
        </>
      )}
    </Loaded>
  );
}

function Program({ session }: { session: Session }) {
  const { kind, current, refused_at, refused_from, client_address } = session;
  return (
    <span className="people-session">
      <span className="people-groups">
        {programOf(session)}
        <Badge>{kind === 'console' ? 'Console' : 'Program'}</Badge>
        {current && <Badge tone="good">This browser</Badge>}
      </span>
      <span className="soft small">from {client_address}</span>
      {refused_at !== null && (
        <span className="small">
          A copy of its credentials was refused <TimeText at={refused_at} form="relative" />, from {refused_from}.
        </span>
      )}
    </span>
  );
}

function programOf({ client }: Session): string {
  return client === '' ? 'a program that did not say its name' : client;
}

function End({ session: { revoked_at, revoked_because, expires_at } }: { session: Session }) {
  if (revoked_at === null) return <TimeText at={expires_at} form="relative" />;
  return (
    <span className="people-session">
      <TimeText at={revoked_at} />
      <span className="soft small">{revoked_because}</span>
    </span>
  );
}

function EndSession({ session, onClose }: { session: Session; onClose: () => void }) {
  const end = useChange('endSession');
  const tell = useTell();
  const { id, kind, current } = session;
  const submit = () =>
    end.mutate(
      { id },
      {
        onSuccess() {
          onClose();
          tell('The session has ended.');
        },
      },
    );
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title="End this session?"
      action="End session"
      kind="danger"
      is_busy={end.isPending}
      problem={end.error}
      onSubmit={submit}
    >
      <p>
        {current
          ? 'It is the one you use now: this browser is signed out.'
          : kind === 'console'
            ? `${programOf(session)} is signed out of the console within a second.`
            : `${programOf(session)} loses access within a second, and asks to sign in again. Access tokens stay.`}
      </p>
    </FormDialog>
  );
}
