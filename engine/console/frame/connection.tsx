import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { ProblemError } from '../api/client.ts';
import { TimeText } from '../parts/times.tsx';

/** Says that the gateway is away while it is; everything is asked for again as soon as it is back. */
export function ConnectionLine({ failing, answered_at }: { failing: ProblemError | null; answered_at: number }) {
  const client = useQueryClient();
  const was_failing = useRef(false);
  useEffect(() => {
    if (failing !== null) was_failing.current = true;
    else if (was_failing.current) {
      was_failing.current = false;
      client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' });
    }
  }, [failing, client]);
  return (
    <div role="status" className="connection">
      {failing !== null && (
        <p>
          The gateway does not answer: {failing.message} Its last answer was at{' '}
          <TimeText at={new Date(answered_at).toISOString()} />, and what is shown is from before. Trying again every
          three seconds.
        </p>
      )}
    </div>
  );
}
