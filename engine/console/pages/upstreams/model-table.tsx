import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Count, Share } from '../../parts/numbers.tsx';
import { took } from '../../parts/times.tsx';
import type { Traffic } from './words.ts';

type Model = Traffic['models'][number];

const COLUMNS: readonly Column<Model>[] = [
  {
    id: 'model',
    title: 'Model there',
    cell: ({ upstream_model }) => <code>{upstream_model}</code>,
    sort: (row) => row.upstream_model,
  },
  {
    id: 'attempts',
    title: 'Attempts',
    cell: ({ attempts }) => <Count of={attempts} />,
    sort: (row) => row.attempts,
    is_number: true,
  },
  {
    id: 'answered',
    title: 'Answered',
    cell: ({ served, attempts }) => <Share of={served / attempts} />,
    sort: (row) => row.served / row.attempts,
    is_number: true,
  },
  {
    id: 'failed',
    title: 'Failed',
    cell: ({ failed }) => <Count of={failed} />,
    sort: (row) => row.failed,
    is_number: true,
  },
  {
    id: 'limited',
    title: 'Limited',
    cell: ({ limited }) => <Count of={limited} />,
    sort: (row) => row.limited,
    is_number: true,
  },
  {
    id: 'p50',
    title: 'Half within',
    cell: ({ p50_ms }) => took(p50_ms),
    sort: (row) => row.p50_ms ?? -1,
    is_number: true,
  },
  {
    id: 'p95',
    title: '95 of 100 within',
    cell: ({ p95_ms }) => took(p95_ms),
    sort: (row) => row.p95_ms ?? -1,
    is_number: true,
  },
];

/** The traffic of an upstream by model. */
export function ModelTable({ name, traffic }: { name: string; traffic: Traffic }) {
  return (
    <DataTable
      label={`Models at ${name}`}
      columns={COLUMNS}
      rows={traffic.models}
      keyOf={({ upstream_model }) => upstream_model}
    />
  );
}
