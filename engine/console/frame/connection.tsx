import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { ProblemError } from '../api/client.ts';

/** Says that the gateway is away while it is; everything is asked for again as soon as it is back. */
export function ConnectionLine({ failing, failed_at }: { failing: ProblemError | null; failed_at: number }) {
  const client = useQueryClient();
  const was_failing = useRef(false);
  useEffect(() => {
    if (failing !== null) was_failing.current = true;
    else if (was_failing.current) {
      was_failing.current = false;
      client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' });
    }
  }, [failing, client]);
  const since = new Date(failed_at).toLocaleTimeString();
  return (
    <div role="status" className="connection">
      {failing !== null && (
        <p>
          The gateway does not answer ({failing.message}). What is shown is from before {since}; trying again every
          three seconds.
        </p>
      )}
    </div>
  );
}
