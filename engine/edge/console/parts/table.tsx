import { type ReactNode, useMemo, useState } from 'react';
import {
  addressOf,
  type InputOf,
  type OperationName,
  type ResponseOf,
  type RowOf,
  useOperation,
  usePageSearch,
} from '../api.ts';
import { OPERATIONS } from '../operations.ts';
import { Button, Icon, Loaded } from './basic.tsx';
import { type Filter, Filters, filtersIn } from './field.tsx';
import { Card, EmptyState } from './page.tsx';
import { num, TimeText } from './words.tsx';

type Key<Row> = keyof Row & string;

/** One column of a table. */
export interface Column<Row> {
  readonly title: string;
  /** By default the title. */
  readonly id?: string;
  readonly cell: Key<Row> | ((row: Row) => ReactNode);
  /** Sort key; absent: not sortable. */
  readonly sort?: Key<Row> | ((row: Row) => string | number);
  readonly is_number?: boolean;
}

/** Columns of a table; `false` is omitted. */
export type Columns<Row> = readonly (Column<Row> | false)[];

interface TableProps<Row> {
  readonly label: string;
  readonly columns: Columns<Row>;
  readonly rows: readonly Row[];
  readonly keyOf?: ((row: Row) => string) | undefined;
  readonly onOpen?: ((row: Row) => void) | undefined;
  readonly open?: string | undefined;
}

/** A sortable table; on narrow screens each row is a block of names and values. */
export function DataTable<Row extends object>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf = idOf, onOpen, open } = props;
  const [sorting, sortBy] = useState<Sorting | undefined>();
  const kept = columns.flatMap((column) => (column === false ? [] : [{ id: column.title, ...column }]));
  const sorted = useMemo(() => sortedRows(rows, columns, sorting), [rows, columns, sorting]);
  return (
    <div className="table-scroll" role="region" aria-label={label} tabIndex={0}>
      {/* Explicit roles survive `display: block` on narrow screens. */}
      <table role="table">
        <thead role="rowgroup">
          <tr role="row">
            {kept.map((column) => (
              <HeadCell key={column.id} column={column} sorting={sorting} sortBy={sortBy} />
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {sorted.map((row) => (
            <tr key={keyOf(row)} role="row" className={keyOf(row) === open ? 'open' : undefined}>
              {kept.map((column, i) => (
                <td key={column.id} role="cell" data-title={column.title} className={column.is_number ? 'number' : ''}>
                  {i === 0 && onOpen !== undefined ? (
                    <button type="button" className="row-button" onClick={() => onOpen(row)}>
                      {cellOf(column, row)}
                    </button>
                  ) : (
                    // One element beside the title on narrow screens.
                    <div>{cellOf(column, row)}</div>
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function idOf(row: object): string {
  return String((row as { readonly id: unknown }).id);
}

/** A field of a row: a time, number, list or text. */
function cellOf<Row>({ cell }: Column<Row>, row: Row): ReactNode {
  if (typeof cell === 'function') return cell(row);
  const value: unknown = row[cell];
  if (typeof value === 'number') return num(value);
  if (Array.isArray(value)) return value.join(', ');
  return typeof value === 'string' && /(?:^|_)at$/.test(cell) ? <TimeText at={value} /> : (value as ReactNode);
}

interface Sorting {
  readonly id: string;
  readonly is_descending: boolean;
}

function sortedRows<Row>(rows: readonly Row[], columns: Columns<Row>, sorting: Sorting | undefined): readonly Row[] {
  const column = columns.find((each) => each !== false && (each.id ?? each.title) === sorting?.id);
  if (!column || column.sort === undefined) return rows;
  const { sort } = column;
  const by = (row: Row) => (typeof sort === 'function' ? sort(row) : ((row[sort] ?? '') as string | number));
  const sign = sorting!.is_descending ? -1 : 1;
  return rows.toSorted((a, b) => (by(a) === by(b) ? 0 : by(a) > by(b) ? sign : -sign));
}

function HeadCell<Row>({
  column: { id, title, sort, is_number = false },
  sorting,
  sortBy,
}: {
  column: Column<Row> & { readonly id: string };
  sorting: Sorting | undefined;
  sortBy: (sorting: Sorting) => void;
}) {
  const descends = sorting?.id === id ? sorting.is_descending : undefined;
  const direction = descends === undefined ? undefined : descends ? 'descending' : 'ascending';
  return (
    <th role="columnheader" scope="col" aria-sort={direction} className={is_number ? 'number' : undefined}>
      {sort === undefined ? (
        title
      ) : (
        <button
          type="button"
          className="sort-button"
          onClick={() => sortBy({ id, is_descending: descends === undefined ? is_number : !descends })}
        >
          {title}
          <span aria-hidden="true">{descends === undefined ? '' : descends ? ' ↓' : ' ↑'}</span>
        </button>
      )}
    </th>
  );
}

type Empty = readonly [title: string, more?: ReactNode];

export interface ListPageProps<Name extends OperationName> extends Omit<TableProps<RowOf<Name>>, 'label' | 'rows'> {
  readonly operation: Name;
  readonly input?: InputOf<Name>;
  readonly title: string;
  /** Without a card of its own. */
  readonly is_part?: boolean;
  readonly note?: ReactNode;
  readonly actions?: ReactNode;
  /** Operations that export what is listed, by title. */
  readonly files?: Readonly<Record<string, OperationName>>;
  readonly filters?: readonly Filter[];
  readonly clear?: string;
  readonly empty: Empty | ((response: ResponseOf<Name>) => Empty);
  readonly narrowed?: Empty;
  /** Rows of the response; by default its list. */
  readonly rows?: (response: ResponseOf<Name>) => readonly RowOf<Name>[];
  /** Page size; absent: no paging. */
  readonly page?: number;
  /** URL parameter of the open entry. */
  readonly opens?: string;
  readonly drawer?: (row: RowOf<Name>, close: () => void) => ReactNode;
  readonly every_seconds?: number;
}

/** The list of an operation, or an empty state. Filters, cursor and open entry are in the URL. */
export function ListPage<Name extends OperationName>(props: ListPageProps<Name>) {
  const { operation, title, filters = [], files, empty, narrowed, page, opens, drawer, every_seconds } = props;
  const { keyOf = idOf } = props;
  const [search, change] = usePageSearch();
  const { query, rows: list_name } = OPERATIONS[operation];
  const cursor = query.includes('before') ? 'before' : 'after';
  const paged = page === undefined ? {} : { limit: page, [cursor]: search[cursor] };
  const filtered = filtersIn(search, filters);
  const input = { ...filtered, ...props.input } as InputOf<Name>;
  const list_query = useOperation(operation, { ...input, ...paged }, { every_seconds });
  const rowsOf =
    props.rows ??
    ((response: ResponseOf<Name>) => response[list_name as keyof typeof response] as readonly RowOf<Name>[]);
  const emptyOf = (response: ResponseOf<Name>) => {
    if (narrowed !== undefined && Object.keys(filtered).length > 0) return narrowed;
    return typeof empty === 'function' ? empty(response) : empty;
  };
  const open =
    list_query.data && opens ? rowsOf(list_query.data).find((row) => keyOf(row) === search[opens]) : undefined;
  const list = (
    <>
      {props.note !== undefined && <p className="soft small">{props.note}</p>}
      {filters.length > 0 && (
        <Filters
          of={filters}
          clear={props.clear}
          // Without pages, the cursor in the URL is that of the list behind a drawer.
          resets={{ ...(page && { [cursor]: undefined }), ...(opens && { [opens]: undefined }) }}
        />
      )}
      <Loaded query={list_query}>
        {(response) => (
          <>
            {rowsOf(response).length === 0 ? (
              <EmptyState title={emptyOf(response)[0]}>{emptyOf(response)[1]}</EmptyState>
            ) : (
              <DataTable
                label={title}
                columns={props.columns}
                rows={rowsOf(response)}
                keyOf={keyOf}
                onOpen={opens === undefined ? undefined : (row) => change({ [opens]: keyOf(row) })}
                open={opens && search[opens]}
              />
            )}
            {page !== undefined && (
              <Turn name={cursor} next={(response as { next?: string | number | null }).next ?? null} />
            )}
          </>
        )}
      </Loaded>
      {open !== undefined && drawer?.(open, () => change({ [opens!]: undefined }))}
    </>
  );
  if (props.is_part) return list;
  return (
    <Card title={title} actions={files === undefined ? props.actions : <Files of={files} input={input} />}>
      {list}
    </Card>
  );
}

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

/** Download links of exporting operations, by title. */
export function Files({ of, input }: { of: Readonly<Record<string, OperationName>>; input: object }) {
  return (
    <div className="row">
      {Object.entries(of).map(([title, operation]) => (
        <a key={title} className="button secondary" href={addressOf(operation, input as never)} download>
          <Icon name="down" />
          {title}
        </a>
      ))}
    </div>
  );
}
