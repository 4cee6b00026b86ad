import { useState } from 'react';
import { useChange } from '../../api/queries.ts';
import { FormDialog } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { useTell } from '../../parts/tell.tsx';
import type { Upstream } from './words.ts';

interface Asked {
  readonly upstream: Upstream;
  readonly onClose: () => void;
}

const routeNames = (names: readonly string[]) => names.map((name) => `"${name}"`).join(', ');

/** Asks why an upstream is to get no new requests, and says first what that leaves without one. */
export function DrainDialog({ upstream: { name, routes, in_flight }, onClose }: Asked) {
  const [reason, setReason] = useState('');
  const drain = useChange('drainUpstream');
  const tell = useTell();
  const left_alone = routes.filter(({ is_last }) => is_last).map((route) => route.name);
  const submit = () => {
    drain.mutate(
      { name, ...(reason.trim() !== '' && { reason: reason.trim() }) },
      {
        onSuccess: ({ routes_without_upstream }) => {
          const rest =
            routes_without_upstream.length === 0
              ? 'Its routes go on with their other upstreams.'
              : `Refused from now on: requests of ${routeNames(routes_without_upstream)}.`;
          tell(`Drained ${name}. ${rest}`, routes_without_upstream.length === 0 ? 'good' : 'warn');
          onClose();
        },
      },
    );
  };
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Drain ${name}?`}
      action={`Drain ${name}`}
      kind={left_alone.length > 0 ? 'danger' : 'primary'}
      is_busy={drain.isPending}
      problem={drain.error}
      onSubmit={submit}
    >
      <p>
        It gets no new requests at any replica until somebody resumes it.
        {in_flight !== null && in_flight > 0
          ? ` ${in_flight} under way at this replica go on to their end.`
          : ' Requests under way go on to their end.'}
      </p>
      {left_alone.length > 0 && (
        <p className="upstream-warning" role="alert">
          <strong>No other upstream is left in {left_alone.length === 1 ? 'the route' : 'the routes'}</strong>{' '}
          {routeNames(left_alone)}: all requests there are refused until it is resumed.
        </p>
      )}
      <TextField
        label="Reason"
        hint="Everybody who administers the gateway reads it here. You may leave it out."
        value={reason}
        maxLength={200}
        onChange={(event) => setReason(event.target.value)}
      />
    </FormDialog>
  );
}

/** Asks whether an upstream is to get requests again. */
export function ResumeDialog({ upstream: { name, drained, configured }, onClose }: Asked) {
  const resume = useChange('resumeUpstream');
  const tell = useTell();
  const submit = () => {
    const told = configured ? 'It gets new requests again.' : 'gateway.yaml has no such upstream.';
    resume.mutate(
      { name },
      {
        onSuccess: () => {
          tell(`Resumed ${name}. ${told}`);
          onClose();
        },
      },
    );
  };
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Resume ${name}?`}
      action={`Resume ${name}`}
      is_busy={resume.isPending}
      problem={resume.error}
      onSubmit={submit}
    >
      <p>
        {drained !== null && `Drained by ${drained.by}${drained.reason === null ? '.' : `: ${drained.reason}`} `}
        Every replica sends it new requests again.
      </p>
    </FormDialog>
  );
}
