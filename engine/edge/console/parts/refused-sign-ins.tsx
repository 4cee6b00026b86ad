import { type RefusedSignIn, WORDS } from '../operations.ts';
import { type Columns, ListPage, type ListPageProps } from './table.tsx';
import { below, soft } from './words.tsx';

const COLUMNS: Columns<RefusedSignIn> = [
  { title: 'When', cell: 'at' },
  { title: 'Who', cell: ({ email, subject }) => email || subject || soft('unknown') },
  {
    title: 'Why',
    cell: ({ refused, detail, groups, expected }) => {
      const required = `Required: ${expected.join(', ')}. Received: ${groups.join(', ') || 'none'}.`;
      return (
        <span className="any">
          {WORDS.RefusalReason[refused]}
          {below(detail)}
          {expected.length > 0 && below(required)}
        </span>
      );
    },
  },
  { title: 'Client', cell: ({ client }) => client || soft('unknown') },
  { title: 'From', cell: 'client_address' },
];

/** A list of rejected sign-ins, with their reasons. */
export function RefusedSignIns(list: Partial<ListPageProps<'listRefusedSignIns'>>) {
  return (
    <ListPage
      operation="listRefusedSignIns"
      title="Rejected sign-ins"
      columns={COLUMNS}
      empty={['No rejected sign-ins in the last 14 days']}
      {...list}
    />
  );
}
