import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import type { Token } from '../../api/operations.ts';
import { useChange } from '../../api/queries.ts';
import { FormDialog } from '../../parts/dialog.tsx';
import { SelectField } from '../../parts/field.tsx';
import { useTell } from '../../parts/tell.tsx';
import { TimeText } from '../../parts/times.tsx';
import { MadeDialog, NextSteps } from './made-dialog.tsx';
import { OVERLAPS } from './words.ts';

interface Changing {
  readonly token: Token;
  readonly onClose: () => void;
}

/** Puts a new token in the place of one, which works on for a while. */
export function RotateDialog({ token, onClose }: Changing) {
  const rotate = useChange('rotateToken');
  const [overlap, setOverlap] = useState<string>(OVERLAPS[0].value);
  const [made, setMade] = useState<AnswerOf<'rotateToken'> | undefined>();
  if (made !== undefined) {
    return (
      <MadeDialog token={made.token} title={`New token for ${made.name}`} onClose={onClose}>
        <NextSteps group={made.group} />
      </MadeDialog>
    );
  }
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Rotate ${token.name}`}
      action="Make the new token"
      is_busy={rotate.isPending}
      problem={rotate.error}
      onSubmit={() => rotate.mutate({ id: token.id, overlap_seconds: Number(overlap) }, { onSuccess: setMade })}
    >
      <p>A new token with the same owner, group, name and end takes the place of this one.</p>
      <Used token={token} />
      <SelectField
        label="The old one works on"
        value={overlap}
        options={OVERLAPS}
        onChange={(event) => setOverlap(event.target.value)}
        hint="Long enough to bring the new one everywhere."
      />
    </FormDialog>
  );
}

/** Ends a token, and says what stops working. */
export function RevokeDialog({ token, onClose }: Changing) {
  const revoke = useChange('revokeToken');
  const tell = useTell();
  const submit = () =>
    revoke.mutate(
      { id: token.id },
      {
        onSuccess: ({ also_revoked }) => {
          const others = also_revoked.length === 0 ? '' : ', and what it replaced';
          tell(`Revoked ${token.name} of ${token.user}${others}.`);
          onClose();
        },
      },
    );
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Revoke ${token.name}`}
      action="Revoke the token"
      kind="danger"
      is_busy={revoke.isPending}
      problem={revoke.error}
      onSubmit={submit}
    >
      <p>
        Every client that uses <code>{token.prefix}…</code> of {token.user} is refused within a second. This cannot be
        taken back; to change the token without a break, rotate it.
      </p>
      <Used token={token} />
    </FormDialog>
  );
}

function Used({ token: { last_used_at } }: { token: Token }) {
  if (last_used_at === null) return <p className="soft">It was never used, so nothing stops working.</p>;
  return (
    <p className="soft">
      Last used <TimeText at={last_used_at} form="relative" />, <TimeText at={last_used_at} form="long" />.
    </p>
  );
}
