import type { UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useEffect, useState } from 'react';
import type { ProblemError } from '../api/client.ts';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';

/** Nothing is drawn for so long, so that quick answers do not flicker. */
const QUIET_MS = 90;

/** As many as a skeleton can have. */
const LINES = Array.from({ length: 20 }, (_, i) => `line ${i + 1}`);

/** Bars where text will stand. */
export function Skeleton({ lines = 3, label = 'Loading' }: { lines?: number; label?: string }) {
  const [is_shown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), QUIET_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="skeleton" role="status" aria-busy="true">
      <span className="unseen">{label}</span>
      {is_shown &&
        LINES.slice(0, lines).map((line) => <span key={line} className="skeleton-line" aria-hidden="true" />)}
    </div>
  );
}

/** What went wrong, what to do, and by what an administrator finds it. */
export function ProblemBox({ problem, onRetry }: { problem: ProblemError; onRetry?: () => void }) {
  const { message, request_id, status } = problem;
  return (
    <div className="problem" role="alert">
      <Icon name="alarm" />
      <div>
        <p>{message}</p>
        {status === 0 && <p className="soft">Check the network; a gateway that restarts is back within seconds.</p>}
        {request_id !== undefined && <p className="soft small">Request {request_id}</p>}
        {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
      </div>
    </div>
  );
}

/** What to say where there is nothing yet, and how to begin. */
export function EmptyState({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children !== undefined && <div className="soft">{children}</div>}
    </div>
  );
}

/** What an operation answers, once it has; before that a skeleton, and a problem with a way to try again instead. */
export function Loaded<Answer>({
  query,
  lines = 5,
  children,
}: {
  query: UseQueryResult<Answer, ProblemError>;
  lines?: number;
  children: (answer: Answer) => ReactNode;
}) {
  const { data, error, isFetching, isPlaceholderData } = query;
  const retry = () => void query.refetch();
  if (data === undefined) {
    return error === null ? <Skeleton lines={lines} /> : <ProblemBox problem={error} onRetry={retry} />;
  }
  return (
    <div className={isFetching && isPlaceholderData ? 'stale' : undefined} aria-busy={isFetching || undefined}>
      {error !== null && <ProblemBox problem={error} onRetry={retry} />}
      {children(data)}
    </div>
  );
}
