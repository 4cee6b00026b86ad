import type { UseQueryResult } from '@tanstack/react-query';
import {
  createSortedRowModel,
  rowSortingFeature,
  type SortingState,
  sortFn_basic,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import { type ReactNode, useMemo, useState } from 'react';
import { type ProblemError, usePageSearch } from '../api.ts';
import { Button, Icon, Loaded } from './basic.tsx';

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
  /** By their id unless it says otherwise. */
  readonly keyOf?: (row: Row) => string;
  readonly sorted_by?: { readonly id: string; readonly desc: boolean };
  /** What is done when a row is chosen, by its button in the first column. */
  readonly onOpen?: (row: Row) => void;
  readonly isOpen?: (row: Row) => boolean;
}

/** So many rows are drawn at once: thousands would make a browser slow. */
const AT_ONCE = 100;

/** A table that sorts by its columns; on a narrow screen each row is a block of names and values. */
export function DataTable<Row extends object>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf = idOf, sorted_by, onOpen, isOpen } = props;
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

function idOf(row: object): string {
  return String((row as { readonly id: unknown }).id);
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

/** A list that an operation answers, as a table; `empty` stands in its place where there is nothing, `turn` names the part of the address of its pages. */
export function List<Answer extends object, Row extends object>({
  query,
  rows,
  empty,
  turn,
  lines = 5,
  ...table
}: Omit<TableProps<Row>, 'rows'> & {
  readonly query: UseQueryResult<Answer, ProblemError>;
  readonly rows: (answer: Answer) => readonly Row[];
  readonly empty: ReactNode;
  readonly turn?: string;
  /** Of the skeleton. */
  readonly lines?: number;
}) {
  return (
    <Loaded query={query} lines={lines}>
      {(answer: Answer & { readonly next?: string | number | null }) => (
        <>
          {rows(answer).length === 0 ? empty : <DataTable {...table} rows={rows(answer)} />}
          {turn !== undefined && <Turn name={turn} next={answer.next ?? null} />}
        </>
      )}
    </Loaded>
  );
}

/** The way to the next page of a list and back to its first; the part of the address that is named says where a page begins. */
function Turn({ name, next }: { name: string; next: string | number | null }) {
  const [search, change] = usePageSearch();
  if (search[name] === undefined && next === null) return null;
  return (
    <div className="row">
      {search[name] !== undefined && <Button onClick={() => change({ [name]: undefined })}>First page</Button>}
      {next !== null && <Button onClick={() => change({ [name]: String(next) })}>Next page</Button>}
    </div>
  );
}

/** Links to all that the filters select, as files. */
export function Files({ lines, csv }: { lines: string; csv: string }) {
  return (
    <div className="row">
      <a className="button secondary" href={csv} download>
        <Icon name="down" />
        CSV
      </a>
      <a className="button secondary" href={lines} download>
        <Icon name="down" />
        JSON lines
      </a>
    </div>
  );
}
