import { useQuery } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { useEffect } from 'react';
import type { ProblemError } from '../api/client.ts';
import { type ConsoleSession, readSession } from '../api/session.ts';
import { ProblemBox, Skeleton } from '../parts/states.tsx';
import { NoticeArea } from '../parts/tell.tsx';
import { router } from '../router.tsx';
import { ConnectionLine } from './connection.tsx';
import { SessionContext } from './session-context.ts';
import { SignInPage } from './sign-in-page.tsx';

/** How often it is asked whether the session goes on; each answer is a sign of life of the gateway as well. */
const SESSION_SECONDS = 30;

/** The whole application: who is there decides whether pages are shown, or how to sign in. */
export function Console() {
  const session = useQuery<ConsoleSession, ProblemError>({
    queryKey: ['session'],
    queryFn: readSession,
    refetchInterval: ({ state }) => (state.status === 'error' ? 3000 : SESSION_SECONDS * 1000),
    retry: false,
  });
  const { data, error, refetch } = session;
  useEffect(() => {
    const look = () => void refetch();
    for (const event of ['offline', 'online']) window.addEventListener(event, look);
    return () => {
      for (const event of ['offline', 'online']) window.removeEventListener(event, look);
    };
  }, [refetch]);
  useEffect(() => {
    if (data !== undefined) document.title = data.name;
  }, [data]);
  if (data === undefined && error !== null) {
    return (
      <main className="lone">
        <ProblemBox problem={error} onRetry={() => refetch()} />
      </main>
    );
  }
  if (data === undefined) {
    return (
      <main className="lone">
        <Skeleton lines={6} label="The console is loading" />
      </main>
    );
  }
  if (data.person === null) return <SignInPage session={data} />;
  return (
    <SessionContext value={{ ...data, person: data.person }}>
      <NoticeArea>
        <ConnectionLine failing={error} answered_at={session.dataUpdatedAt} />
        <RouterProvider router={router} />
      </NoticeArea>
    </SessionContext>
  );
}
