import { useState } from 'react';
import type { InputOf } from '../../api/client.ts';
import type { LimitInForce } from '../../api/operations.ts';
import { useChange } from '../../api/queries.ts';
import { FormDialog } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { useTell } from '../../parts/tell.tsx';
import { Origin, Used } from './counter-card.tsx';
import { amountWords, whoseWords, windowWords } from './words.ts';

/** Sets the limit of one counter in place of those of gateway.yaml. */
export function SetDialog({ limit, onClose }: { limit: LimitInForce; onClose: () => void }) {
  const { of, window, unit } = limit;
  const [much, setMuch] = useState(() => String(withoutGrants(limit) ?? ''));
  const [reason, setReason] = useState('');
  const set = useChange('setLimit');
  const tell = useTell();
  const whose = `${whoseWords(of)} ${windowWords(window)}`;
  const submit = () =>
    set.mutate({ ...of, window, [unit]: Number(much), reason } as InputOf<'setLimit'>, {
      onSuccess: () => {
        tell(`The limit of ${whose} is ${amountWords(Number(much), unit)} from now on.`);
        onClose();
      },
    });
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Set the limit of ${whose}`}
      action="Set the limit"
      is_busy={set.isPending}
      problem={set.error}
      onSubmit={submit}
    >
      <p className="soft">
        It takes the place of what gateway.yaml says for this counter, until you clear it. For a time only, give a grant
        instead.
      </p>
      <Used limit={limit} label="Now" />
      <Origin limit={limit} />
      <TextField
        label={unit === 'usd' ? 'New limit in USD' : `New limit in ${unit}`}
        inputMode="decimal"
        required
        pattern={unit === 'usd' ? '[0-9]{1,7}([.][0-9]{1,9})?' : '[0-9]{1,12}'}
        title="Digits, such as 20"
        autoComplete="off"
        value={much}
        onChange={(event) => setMuch(event.target.value.trim())}
        hint={lessThanSpent(limit, much)}
      />
      <TextField
        label="Why"
        required
        maxLength={200}
        autoComplete="off"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        hint="Kept in the list of changes, for whoever asks later."
      />
    </FormDialog>
  );
}

/** The limit that a new one takes the place of; grants stay on top of it. */
function withoutGrants({ set, rules }: LimitInForce): number | undefined {
  if (set !== null) return set.limit;
  const enforced = rules.flatMap(({ mode, always, limit }) =>
    mode === 'enforce' && always && limit !== null ? [limit] : [],
  );
  return enforced.length === 0 ? undefined : Math.min(...enforced);
}

function lessThanSpent({ spent, reserved, unit, window, grants }: LimitInForce, much: string): string {
  const amount = Number(much);
  if (much === '' || Number.isNaN(amount)) return '';
  if (amount === 0) return 'A limit of nothing refuses every request it is for.';
  const granted = grants.reduce((sum, grant) => sum + grant.amount, 0);
  if (window === 'open' || amount + granted > spent + reserved) return '';
  return `${amountWords(spent + reserved, unit)} are used already: further requests will be refused until it resets.`;
}

/** Takes back a limit that was set. */
export function ClearDialog({ limit, onClose }: { limit: LimitInForce; onClose: () => void }) {
  const { of, window, unit, set, rules } = limit;
  const clear = useChange('clearLimit');
  const tell = useTell();
  const whose = `${whoseWords(of)} ${windowWords(window)}`;
  const enforced = rules.filter(({ mode }) => mode === 'enforce');
  const submit = () =>
    clear.mutate(
      { ...of, window, unit },
      {
        onSuccess: ({ now }) => {
          const limit_now = now.limit === null ? 'nothing limits it' : `its limit is ${amountWords(now.limit, unit)}`;
          tell(`Took back the limit of ${whose}: ${limit_now} now.`);
          onClose();
        },
      },
    );
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Take back the limit of ${whose}`}
      action="Take it back"
      kind="danger"
      is_busy={clear.isPending}
      problem={clear.error}
      onSubmit={submit}
    >
      {set !== null && (
        <p>
          It was set to {amountWords(set.limit, unit)} by {set.set_by}
          {set.reason === null ? '' : `: ${set.reason}`}.
        </p>
      )}
      {enforced.length === 0 ? (
        <p>gateway.yaml has no limit for it, so nothing limits it from the next request on.</p>
      ) : (
        <>
          <p>From the next request on gateway.yaml decides again:</p>
          <Origin limit={{ ...limit, set: null, grants: [] }} />
        </>
      )}
    </FormDialog>
  );
}
