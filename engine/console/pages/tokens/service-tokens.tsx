import { useMemo, useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import type { ServiceToken } from '../../api/operations.ts';
import { useChange, useOperation } from '../../api/queries.ts';
import { Badge } from '../../parts/badge.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { FormDialog } from '../../parts/dialog.tsx';
import { SelectField } from '../../parts/field.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { useTell } from '../../parts/tell.tsx';
import { TimeText } from '../../parts/times.tsx';
import { MadeDialog } from './made-dialog.tsx';
import { actions, type Changing } from './row-actions.tsx';
import { CreateServiceToken } from './service-token-dialog.tsx';
import { OVERLAPS, TONES } from './words.ts';

/** Service tokens: credentials of programs for the admin API. */
export function ServiceTokens({ is_creating, onCreated }: { is_creating: boolean; onCreated: () => void }) {
  const query = useOperation('listServiceTokens', {});
  const [changing, setChanging] = useState<Changing<ServiceToken> | undefined>();
  const columns = useMemo(() => [...COLUMNS, actions(setChanging)], []);
  const close = () => setChanging(undefined);
  return (
    <Card title="Service tokens">
      <Loaded query={query}>
        {({ service_tokens }) =>
          service_tokens.length === 0 ? (
            <EmptyState title="There are no service tokens yet">
              A program that reads usage or makes tokens gets one of its own, with no more rights than it needs.
            </EmptyState>
          ) : (
            <DataTable label="Service tokens" columns={columns} rows={service_tokens} keyOf={({ id }) => id} />
          )
        }
      </Loaded>
      {is_creating && <CreateServiceToken onClose={onCreated} />}
      {changing?.what === 'rotate' && <Rotate token={changing.token} onClose={close} />}
      {changing?.what === 'revoke' && <Revoke token={changing.token} onClose={close} />}
    </Card>
  );
}

const COLUMNS: readonly Column<ServiceToken>[] = [
  {
    id: 'name',
    title: 'Program',
    cell: ({ name, prefix }) => (
      <>
        {name}
        <code className="soft small tokens-line">{prefix}…</code>
      </>
    ),
  },
  { id: 'scopes', title: 'May', cell: ({ scopes }) => scopes.join(', ') },
  { id: 'owner', title: 'Answers for it', cell: ({ owner, created_by }) => owner ?? created_by },
  {
    id: 'state',
    title: 'State',
    cell: ({ state }) => (
      <>
        <Badge tone={TONES[state] ?? 'plain'}>{state}</Badge>
        {state === 'unowned' && (
          <span className="soft small tokens-line">
            Its owner is no administrator any more; rotate it to take it over.
          </span>
        )}
      </>
    ),
  },
  {
    id: 'used',
    title: 'Last used',
    cell: ({ last_used_at }) =>
      last_used_at === null ? <span className="soft">never</span> : <TimeText at={last_used_at} form="relative" />,
  },
  { id: 'expires', title: 'Expires', cell: ({ expires_at }) => <TimeText at={expires_at} form="relative" /> },
];

function Rotate({ token, onClose }: { token: ServiceToken; onClose: () => void }) {
  const rotate = useChange('rotateServiceToken');
  const [overlap, setOverlap] = useState<string>(OVERLAPS[0].value);
  const [made, setMade] = useState<AnswerOf<'rotateServiceToken'> | undefined>();
  if (made !== undefined)
    return <MadeDialog token={made.token} title={`New token of ${made.name}`} onClose={onClose} />;
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Rotate the token of ${token.name}`}
      action="Make the new token"
      is_busy={rotate.isPending}
      problem={rotate.error}
      onSubmit={() => rotate.mutate({ id: token.id, overlap_seconds: Number(overlap) }, { onSuccess: setMade })}
    >
      <p>A new token with the same name and rights takes its place, and you answer for it.</p>
      <SelectField
        label="The old one works on"
        value={overlap}
        options={OVERLAPS}
        onChange={(event) => setOverlap(event.target.value)}
      />
    </FormDialog>
  );
}

function Revoke({ token, onClose }: { token: ServiceToken; onClose: () => void }) {
  const revoke = useChange('revokeServiceToken');
  const tell = useTell();
  const submit = () =>
    revoke.mutate(
      { id: token.id },
      {
        onSuccess: () => {
          tell(`Revoked the token of ${token.name}.`);
          onClose();
        },
      },
    );
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Revoke the token of ${token.name}`}
      action="Revoke the token"
      kind="danger"
      is_busy={revoke.isPending}
      problem={revoke.error}
      onSubmit={submit}
    >
      <p>
        Programs that use <code>{token.prefix}…</code> may no more: {token.scopes.join(', ')}. This cannot be taken
        back.
      </p>
    </FormDialog>
  );
}
