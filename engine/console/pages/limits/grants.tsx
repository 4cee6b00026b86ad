import { useState } from 'react';
import type { Grant } from '../../api/operations.ts';
import { useChange, useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Badge, type Tone } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { FormDialog } from '../../parts/dialog.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { useTell } from '../../parts/tell.tsx';
import { TimeText } from '../../parts/times.tsx';
import { Turn } from '../../parts/turn.tsx';
import { amountWords, type Scope, whoseWords, windowWords } from './words.ts';

const TONES: Readonly<Record<Grant['state'], Tone>> = { active: 'good', revoked: 'plain', expired: 'plain' };

const COLUMNS: readonly Column<Grant>[] = [
  { id: 'whose', title: 'For', cell: ({ of, window }) => `${whoseWords(of)} ${windowWords(window)}` },
  { id: 'amount', title: 'More', cell: ({ amount, unit }) => amountWords(amount, unit) },
  { id: 'why', title: 'Why', cell: ({ reason }) => reason ?? <span className="soft">no reason given</span> },
  { id: 'by', title: 'By', cell: ({ granted_by }) => granted_by ?? 'an administrator' },
  {
    id: 'until',
    title: 'Until',
    cell: ({ expires_at, revoked_at }) => <TimeText at={revoked_at ?? expires_at} />,
  },
];
const STATE: Column<Grant> = {
  id: 'state',
  title: 'State',
  cell: ({ state }) => <Badge tone={TONES[state]}>{state}</Badge>,
};

/** Grants, the newest first: who gave what to whom, why and until when. */
export function Grants({ of }: { of: Partial<Record<Scope, string>> }) {
  const [{ ended, grants_after }, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const [leaving, setLeaving] = useState<Grant | undefined>();
  const is_all = ended === 'true';
  const query = useOperation('listGrants', { ...of, ended: is_all ? 'true' : 'false', limit: 25, after: grants_after });
  const revoke: Column<Grant> = {
    id: 'do',
    title: 'Actions',
    cell: (grant) =>
      grant.state === 'active' ? (
        <span className="row-actions">
          <Button
            kind="quiet"
            onClick={() => setLeaving(grant)}
            aria-label={`Revoke the grant for ${whoseWords(grant.of)}`}
          >
            Revoke
          </Button>
        </span>
      ) : null,
  };
  const columns = [...COLUMNS, ...(is_all ? [STATE] : []), ...(is_admin ? [revoke] : [])];
  const toggle = (
    <label className="limits-toggle">
      <input
        type="checkbox"
        checked={is_all}
        onChange={({ target }) => change({ ended: target.checked ? 'true' : undefined, grants_after: undefined })}
      />
      Show ended ones, too
    </label>
  );
  return (
    <Card title="Grants" actions={toggle}>
      <Loaded query={query} lines={3}>
        {({ grants, next }) => (
          <>
            {grants.length === 0 ? (
              <EmptyState title={is_all ? 'Nothing was granted yet' : 'Nothing is granted now'}>
                A grant is room on top of a limit, for a time.
              </EmptyState>
            ) : (
              <DataTable label="Grants" columns={columns} rows={grants} keyOf={({ id }) => id} />
            )}
            <Turn name="grants_after" next={next} />
          </>
        )}
      </Loaded>
      {leaving !== undefined && <RevokeDialog grant={leaving} onClose={() => setLeaving(undefined)} />}
    </Card>
  );
}

function RevokeDialog({ grant, onClose }: { grant: Grant; onClose: () => void }) {
  const revoke = useChange('revokeGrant');
  const tell = useTell();
  const { of, window, unit, amount, granted_by, reason, expires_at } = grant;
  const whose = `${whoseWords(of)} ${windowWords(window)}`;
  const submit = () =>
    revoke.mutate(
      { id: grant.id },
      {
        onSuccess: ({ now }) => {
          const left = now.room === null ? 'nothing limits it' : `${amountWords(now.room, unit)} are left`;
          tell(`Revoked ${amountWords(amount, unit)} for ${whose}: ${left} now.`);
          onClose();
        },
      },
    );
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Revoke the grant for ${whoseWords(of)}`}
      action={`Revoke ${amountWords(amount, unit)}`}
      kind="danger"
      is_busy={revoke.isPending}
      problem={revoke.error}
      onSubmit={submit}
    >
      <p>
        {granted_by} granted {amountWords(amount, unit)} more {windowWords(window)} until{' '}
        <TimeText at={expires_at} form="long" />
        {reason === null ? '' : `: ${reason}`}. The next request goes without it, and is refused where that much is
        spent.
      </p>
    </FormDialog>
  );
}
