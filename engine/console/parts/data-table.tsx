import {
  createSortedRowModel,
  rowSortingFeature,
  type SortingState,
  sortFn_basic,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import { type ReactNode, useMemo, useState } from 'react';
import { Button } from './button.tsx';

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { basic: sortFn_basic },
});

/** One column of a table. */
export interface Column<Row> {
  readonly id: string;
  readonly title: string;
  readonly cell: (row: Row) => ReactNode;
  /** What rows are sorted by; without it the column cannot be sorted by. */
  readonly sort?: (row: Row) => string | number;
  /** Numbers stand at the right. */
  readonly is_number?: boolean;
}

interface TableProps<Row> {
  /** What the table holds, for those who do not see it. */
  readonly label: string;
  /** Kept the same from one drawing to the next: a constant, or of `useMemo`. */
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly sorted_by?: { readonly id: string; readonly desc: boolean };
  /** What is done when a row is chosen, by its button in the first column. */
  readonly onOpen?: (row: Row) => void;
  readonly isOpen?: (row: Row) => boolean;
}

/** So many rows are drawn at once: thousands would make a browser slow. */
const AT_ONCE = 100;

/** A table that sorts by its columns; on a narrow screen each row is a block of names and values. */
export function DataTable<Row extends object>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf, sorted_by, onOpen, isOpen } = props;
  const [sorting, setSorting] = useState<SortingState>(sorted_by === undefined ? [] : [sorted_by]);
  const [shown, setShown] = useState(AT_ONCE);
  const model = useMemo(
    () =>
      columns.map(({ id, sort }) => ({
        id,
        accessorFn: (row: Row) => sort?.(row),
        enableSorting: sort !== undefined,
        sortFn: 'basic' as const,
      })),
    [columns],
  );
  const table = useTable({
    features,
    columns: model,
    data: rows as Row[],
    getRowId: keyOf,
    state: { sorting },
    onSortingChange: setSorting,
  });
  const all = table.getRowModel().rows;
  const more = Math.min(AT_ONCE, all.length - shown);
  return (
    <>
      <div className="table-scroll" role="region" aria-label={label} tabIndex={0}>
        {/* The roles stay what they are where the style makes blocks of the rows. */}
        <table role="table">
          <thead role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <HeadCell key={column.id} column={column} sorting={sorting} sortBy={setSorting} />
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {all.slice(0, shown).map(({ id, original }) => (
              <tr key={id} role="row" className={isOpen?.(original) ? 'open' : undefined}>
                {columns.map((column, i) => (
                  <td
                    key={column.id}
                    role="cell"
                    data-title={column.title}
                    className={column.is_number ? 'number' : ''}
                  >
                    {i === 0 && onOpen !== undefined ? (
                      <button type="button" className="row-button" onClick={() => onOpen(original)}>
                        {column.cell(original)}
                      </button>
                    ) : (
                      // One thing beside its title, where the row is a block.
                      <div>{column.cell(original)}</div>
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more > 0 && (
        <Button className="table-more" onClick={() => setShown(shown + AT_ONCE)}>
          {`Show ${more} more of ${all.length}`}
        </Button>
      )}
    </>
  );
}

function HeadCell<Row>({
  column: { id, title, sort, is_number },
  sorting,
  sortBy,
}: {
  column: Column<Row>;
  sorting: SortingState;
  sortBy: (sorting: SortingState) => void;
}) {
  const sorted = sorting.find((each) => each.id === id);
  const direction = sorted === undefined ? undefined : sorted.desc ? 'descending' : 'ascending';
  return (
    <th role="columnheader" scope="col" aria-sort={direction} className={is_number ? 'number' : undefined}>
      {sort === undefined ? (
        title
      ) : (
        <button
          type="button"
          className="sort-button"
          onClick={() => sortBy([{ id, desc: sorted === undefined ? is_number === true : !sorted.desc }])}
        >
          {title}
          <span aria-hidden="true">{sorted === undefined ? '' : sorted.desc ? ' ↓' : ' ↑'}</span>
        </button>
      )}
    </th>
  );
}
