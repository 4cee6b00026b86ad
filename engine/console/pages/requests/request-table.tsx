import { useMemo } from 'react';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { ShortCount, Usd } from '../../parts/numbers.tsx';
import { TimeText, took } from '../../parts/times.tsx';
import type { RequestRow } from './use-live.ts';
import { modelPath, Result } from './words.tsx';

const NOTHING = <span className="soft">–</span>;
const count = (of: number | null) => (of === null ? NOTHING : <ShortCount of={of} />);

const PERSON: Column<RequestRow> = {
  id: 'user',
  title: 'Person and client',
  cell: ({ user, client }) => (
    <>
      {user ?? <span className="soft">unknown</span>}
      {client !== null && <span className="requests-client soft small">{client}</span>}
    </>
  ),
};

const COLUMNS: readonly Column<RequestRow>[] = [
  { id: 'at', title: 'Time', cell: ({ at }) => <TimeText at={at} /> },
  PERSON,
  { id: 'result', title: 'Result', cell: (request) => <Result request={request} /> },
  {
    id: 'model',
    title: 'Model',
    cell: (request) => <ModelPath names={modelPath(request)} />,
  },
  { id: 'upstream', title: 'Upstream', cell: ({ upstream, attempts }) => <Where {...{ upstream, attempts }} /> },
  { id: 'in', title: 'In', cell: ({ input_tokens }) => count(input_tokens), is_number: true },
  {
    id: 'cache',
    title: 'Cache',
    cell: ({ cache_read_tokens, cache_write_tokens }) =>
      cache_read_tokens === null ? NOTHING : <ShortCount of={cache_read_tokens + (cache_write_tokens ?? 0)} />,
    is_number: true,
  },
  { id: 'out', title: 'Out', cell: ({ output_tokens }) => count(output_tokens), is_number: true },
  {
    id: 'cost',
    title: 'Cost',
    cell: ({ cost_usd, cost_estimated }) =>
      cost_usd === null ? (
        NOTHING
      ) : (
        <>
          {cost_estimated && <span title="Estimated: the upstream did not say what was used">≈ </span>}
          <Usd amount={cost_usd} />
        </>
      ),
    is_number: true,
  },
  { id: 'ttfb', title: 'First byte', cell: ({ ttfb_ms }) => took(ttfb_ms), is_number: true },
];
const CLIENT: Column<RequestRow> = { id: 'client', title: 'Client', cell: ({ client }) => client ?? NOTHING };
const OWN_COLUMNS = COLUMNS.map((column) => (column === PERSON ? CLIENT : column));

function ModelPath({ names }: { names: readonly string[] }) {
  if (names.length === 0) return NOTHING;
  const words =
    names.length === 1 ? undefined : 'What the client asked for, and what was sent or answered under another name';
  return (
    <span className="requests-names" title={words}>
      {names.join(' → ')}
    </span>
  );
}

function Where({ upstream, attempts }: Pick<RequestRow, 'upstream' | 'attempts'>) {
  if (upstream === null) return NOTHING;
  return (
    <>
      {upstream}
      {attempts > 1 && <span className="soft"> after {attempts - 1} other</span>}
    </>
  );
}

/** Requests, the newest first; each opens by the button of its time. */
export function RequestTable({
  label,
  rows,
  is_admin,
  open_id,
  onOpen,
}: {
  label: string;
  rows: readonly RequestRow[];
  is_admin: boolean;
  open_id: string | undefined;
  onOpen: (id: string) => void;
}) {
  const columns = useMemo(() => (is_admin ? COLUMNS : OWN_COLUMNS), [is_admin]);
  return (
    <DataTable
      label={label}
      columns={columns}
      rows={rows}
      keyOf={({ id }) => id}
      onOpen={({ id }) => onOpen(id)}
      isOpen={({ id }) => id === open_id}
    />
  );
}
