import { Link } from '@tanstack/react-router';
import { type ReactNode, useMemo, useState } from 'react';
import type { InputOf } from '../../api/client.ts';
import type { Token } from '../../api/operations.ts';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { SearchField, SelectField } from '../../parts/field.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { Turn } from '../../parts/turn.tsx';
import { RevokeDialog, RotateDialog } from './change-dialogs.tsx';
import { actions, type Changing } from './row-actions.tsx';
import { STATE_WORDS, TONES } from './words.ts';

type State = NonNullable<InputOf<'listTokens'>['state']>;
const STATES: readonly { readonly value: State | 'all'; readonly text: string }[] = [
  { value: 'in_force', text: 'in force' },
  { value: 'active', text: 'active' },
  { value: 'suspended', text: 'suspended' },
  { value: 'replaced', text: 'replaced, still working' },
  { value: 'expired', text: 'expired' },
  { value: 'revoked', text: 'revoked' },
  { value: 'all', text: 'all' },
];
const PAGE = 50;

/** Access tokens, the newest first, narrowed by what the address says. */
export function TokenList() {
  const [search] = usePageSearch();
  const { is_admin } = useSession().person;
  const asked = STATES.find(({ value }) => value === search.state)?.value ?? 'in_force';
  const query = useOperation('listTokens', {
    order: 'newest',
    limit: PAGE,
    user: search.user,
    group: search.group,
    search: search.search,
    state: asked === 'all' ? undefined : asked,
    after: search.after,
  });
  const [changing, setChanging] = useState<Changing<Token> | undefined>();
  const close = () => setChanging(undefined);
  const is_narrowed = [search.user, search.group, search.search].some(Boolean) || asked !== 'in_force';
  return (
    <Card title={is_admin ? 'Access tokens' : 'Your tokens'}>
      <Filters state={asked} />
      <Loaded query={query}>
        {({ tokens, next }) => (
          <>
            {tokens.length === 0 ? (
              <Nothing is_narrowed={is_narrowed} />
            ) : (
              <TokenTable tokens={tokens} onChange={setChanging} />
            )}
            <Turn next={next} />
          </>
        )}
      </Loaded>
      {/* Not in the table: what they do may empty it, and a new token is shown once. */}
      {changing?.what === 'rotate' && <RotateDialog token={changing.token} onClose={close} />}
      {changing?.what === 'revoke' && <RevokeDialog token={changing.token} onClose={close} />}
    </Card>
  );
}

function Nothing({ is_narrowed }: { is_narrowed: boolean }) {
  const [, change] = usePageSearch();
  if (is_narrowed) {
    return (
      <EmptyState title="No token is like that">
        <Button kind="quiet" onClick={() => change(NO_FILTERS)}>
          Show all that are in force
        </Button>
      </EmptyState>
    );
  }
  return <EmptyState title="There are no tokens yet">Create one for each device or purpose.</EmptyState>;
}

const NO_FILTERS = { user: undefined, group: undefined, search: undefined, state: undefined, after: undefined };

function Filters({ state }: { state: string }) {
  const [search, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const groups = useOperation('listTokenGroups', {});
  const names = groups.data?.token_groups.map(({ name }) => name) ?? [];
  const all = search.group === undefined || names.includes(search.group) ? names : [...names, search.group];
  return (
    <search className="filters">
      <SearchField
        label={is_admin ? 'Name, owner or id' : 'Name or id'}
        value={search.user ?? search.search ?? ''}
        onSet={(text) => change({ search: text, user: undefined, after: undefined })}
      />
      <SelectField
        label="Group"
        value={search.group ?? ''}
        options={[{ value: '', text: 'all' }, ...all.map((name) => ({ value: name, text: name }))]}
        onChange={({ target }) => change({ group: target.value, after: undefined })}
      />
      <SelectField
        label="State"
        value={state}
        options={STATES}
        onChange={({ target }) => change({ state: target.value, after: undefined })}
      />
    </search>
  );
}

function TokenTable({ tokens, onChange }: { tokens: readonly Token[]; onChange: (changing: Changing<Token>) => void }) {
  const { is_admin } = useSession().person;
  const columns = useMemo(() => [...columnsFor(is_admin), actions(onChange)], [is_admin, onChange]);
  return <DataTable label="Access tokens" columns={columns} rows={tokens} keyOf={({ id }) => id} />;
}

function columnsFor(is_admin: boolean): Column<Token>[] {
  const owner: Column<Token> = {
    id: 'user',
    title: 'Owner',
    cell: ({ user, self_service, created_by }) => (
      <>
        <Link to="/people" search={{ user } as never}>
          {user}
        </Link>
        {!self_service && <span className="soft small tokens-line">made by {created_by}</span>}
      </>
    ),
  };
  return [
    {
      id: 'name',
      title: 'Name',
      cell: ({ id, name, prefix }) => (
        <>
          <Link to="/requests" search={{ token: id } as never} title="Its requests">
            {name}
          </Link>
          <code className="soft small tokens-line">{prefix}…</code>
        </>
      ),
    },
    ...(is_admin ? [owner] : []),
    { id: 'group', title: 'Group', cell: ({ group }) => group },
    { id: 'state', title: 'State', cell: (token) => <StateCell token={token} /> },
    { id: 'used', title: 'Last used', cell: ({ last_used_at }) => <When at={last_used_at} otherwise="never" /> },
    { id: 'expires', title: 'Expires', cell: ({ expires_at }) => <When at={expires_at} otherwise="never" /> },
  ];
}

function StateCell({ token: { state, suspends_at } }: { token: Token }): ReactNode {
  return (
    <>
      <Badge tone={TONES[state] ?? 'plain'}>{state}</Badge>
      {STATE_WORDS[state] !== undefined && <span className="soft small tokens-line">{STATE_WORDS[state]}</span>}
      {suspends_at !== null && (
        <span className="soft small tokens-line">
          is suspended <TimeText at={suspends_at} form="relative" /> unless its owner signs in
        </span>
      )}
    </>
  );
}

function When({ at, otherwise }: { at: string | null; otherwise: string }) {
  return at === null ? <span className="soft">{otherwise}</span> : <TimeText at={at} form="relative" />;
}
