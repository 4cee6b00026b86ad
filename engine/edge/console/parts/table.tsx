import { type ReactNode, useMemo, useState } from 'react';
import { type AnswerOf, type InputOf, type OperationName, type RowOf, useOperation, usePageSearch } from '../api.ts';
import { OPERATIONS } from '../operations.ts';
import { Button, Card, EmptyState, Icon, Loaded, num, TimeText } from './basic.tsx';
import { clearedFilters, type Filter, Filters } from './field.tsx';

type Key<Row> = keyof Row & string;

/** One column of a table. */
export interface Column<Row> {
  readonly title: string;
  /** By default the title. */
  readonly id?: string;
  /** Content: a field of the row, or a function. */
  readonly cell: Key<Row> | ((row: Row) => ReactNode);
  /** Sort key; absent: not sortable. */
  readonly sort?: Key<Row> | ((row: Row) => string | number);
  /** Right-aligned. */
  readonly is_number?: boolean;
}

/** Columns of a table; `false` is omitted. */
export type Columns<Row> = readonly (Column<Row> | false)[];

interface TableProps<Row> {
  /** Accessible name. */
  readonly label: string;
  readonly columns: Columns<Row>;
  readonly rows: readonly Row[];
  /** By default the id. */
  readonly keyOf?: ((row: Row) => string) | undefined;
  /** Called by the button in the first column. */
  readonly onOpen?: ((row: Row) => void) | undefined;
  readonly isOpen?: ((row: Row) => boolean) | undefined;
}

/** Rows rendered at once; thousands would slow down the browser. */
const AT_ONCE = 100;

/** A sortable table; on narrow screens each row is a block of names and values. */
export function DataTable<Row extends object>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf = idOf, onOpen, isOpen } = props;
  const [sorting, sortBy] = useState<Sorting | undefined>();
  const [shown, setShown] = useState(AT_ONCE);
  const kept = columns.flatMap((column) => (column === false ? [] : [{ id: column.title, ...column }]));
  const sorted = useMemo(() => sortedRows(rows, columns, sorting), [rows, columns, sorting]);
  const more = Math.min(AT_ONCE, sorted.length - shown);
  return (
    <>
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
            {sorted.slice(0, shown).map((row) => (
              <tr key={keyOf(row)} role="row" className={isOpen?.(row) ? 'open' : undefined}>
                {kept.map((column, i) => (
                  <td
                    key={column.id}
                    role="cell"
                    data-title={column.title}
                    className={column.is_number ? 'number' : ''}
                  >
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
      {more > 0 && (
        <Button className="table-more" onClick={() => setShown(shown + AT_ONCE)}>
          {`Show ${more} more of ${sorted.length}`}
        </Button>
      )}
    </>
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
  /** Column id. */
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

/** Empty state of a list: a title and a hint. */
type Empty = readonly [title: string, more?: ReactNode];

interface ListPageProps<Name extends OperationName> extends Omit<TableProps<RowOf<Name>>, 'label' | 'rows'> {
  readonly operation: Name;
  readonly input?: InputOf<Name>;
  /** Title of the card, and accessible name of the table. */
  readonly title: string;
  /** Without a card of its own. */
  readonly is_part?: boolean;
  readonly note?: ReactNode;
  /** Beside the title. */
  readonly actions?: ReactNode;
  readonly filters?: readonly Filter[];
  /** Text of the button that clears all filters. */
  readonly clear?: string;
  readonly empty: Empty | ((answer: AnswerOf<Name>) => Empty);
  /** Empty state with active filters. */
  readonly narrowed?: Empty;
  /** Rows of the response; by default its list. */
  readonly rows?: (answer: AnswerOf<Name>) => readonly RowOf<Name>[];
  /** Page size; absent: no paging. */
  readonly page?: number;
  /** URL parameter of the cursor; by default that of the operation. */
  readonly turn?: string;
  /** URL parameter of the open entry. */
  readonly opens?: string;
  readonly drawer?: (row: RowOf<Name>, close: () => void) => ReactNode;
  readonly every_seconds?: number;
  /** Lines of the skeleton. */
  readonly lines?: number;
}

/**
 * The list of an operation. Filters, cursor and open entry are in the URL; shows an empty state without entries.
 */
export function ListPage<Name extends OperationName>(props: ListPageProps<Name>) {
  const { operation, input, title, filters, empty, narrowed, page, drawer, keyOf = idOf, lines = 5 } = props;
  const [search, change] = usePageSearch();
  const { query, rows: list_name } = OPERATIONS[operation];
  const begin = query.includes('before') ? 'before' : 'after';
  const { turn = begin, opens } = props;
  const from = begin === 'before' && !/^\d{1,15}$/.test(search[turn] ?? '') ? undefined : search[turn];
  const paged = page === undefined ? {} : { limit: page, [begin]: begin === 'before' && from ? Number(from) : from };
  const every = props.every_seconds === undefined ? {} : { every_seconds: props.every_seconds };
  const list_query = useOperation(operation, { ...input, ...paged } as InputOf<Name>, every);
  const listOf = (answer: AnswerOf<Name>) => answer[list_name as keyof AnswerOf<Name>] as readonly RowOf<Name>[];
  const rowsOf = props.rows ?? listOf;
  const is_narrowed = Object.keys(clearedFilters(filters ?? [])).some((name) => search[name]);
  const emptyOf = (answer: AnswerOf<Name>) => (typeof empty === 'function' ? empty(answer) : empty);
  const emptyState = ([words, more]: Empty) => <EmptyState title={words}>{more}</EmptyState>;
  const open =
    list_query.data && opens ? rowsOf(list_query.data).find((row) => keyOf(row) === search[opens]) : undefined;
  const list = (
    <>
      {props.note !== undefined && <p className="soft small">{props.note}</p>}
      {filters !== undefined && (
        <Filters
          of={filters}
          clear={props.clear}
          resets={{ [turn]: undefined, ...(opens !== undefined && { [opens]: undefined }) }}
        />
      )}
      <Loaded query={list_query} lines={lines}>
        {(answer) => (
          <>
            {rowsOf(answer).length === 0 ? (
              emptyState((is_narrowed && narrowed) || emptyOf(answer))
            ) : (
              <DataTable
                label={title}
                columns={props.columns}
                rows={rowsOf(answer)}
                keyOf={keyOf}
                {...(opens !== undefined && {
                  onOpen: (row: RowOf<Name>) => change({ [opens]: keyOf(row) }),
                  isOpen: (row: RowOf<Name>) => keyOf(row) === search[opens],
                })}
              />
            )}
            {page !== undefined && <Turn name={turn} next={(answer as Paged).next ?? null} />}
          </>
        )}
      </Loaded>
      {open !== undefined && drawer?.(open, () => change({ [opens!]: undefined }))}
    </>
  );
  return props.is_part ? (
    list
  ) : (
    <Card title={title} actions={props.actions}>
      {list}
    </Card>
  );
}

interface Paged {
  readonly next?: string | number | null;
}

/** Buttons to the next and the first page; `name` is the URL parameter of the cursor. */
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

/** Download links by title. */
export function Files({ of }: { of: Readonly<Record<string, string>> }) {
  return (
    <div className="row">
      {Object.entries(of).map(([name, address]) => (
        <a key={name} className="button secondary" href={address} download>
          <Icon name="down" />
          {name}
        </a>
      ))}
    </div>
  );
}
