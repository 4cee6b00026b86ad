import { type ReactNode, useMemo, useState } from 'react';
import { type AnswerOf, type InputOf, type OperationName, type RowOf, useOperation, usePageSearch } from '../api.ts';
import { OPERATIONS } from '../operations.ts';
import { Button, Card, EmptyState, Icon, Loaded, num, TimeText } from './basic.tsx';
import { clearedFilters, type Filter, Filters } from './field.tsx';

type Key<Row> = keyof Row & string;

/** One column of a table. */
export interface Column<Row> {
  readonly title: string;
  /** Its title, unless several have the same. */
  readonly id?: string;
  /** What stands in it: a field of the row, or what is made of it. */
  readonly cell: Key<Row> | ((row: Row) => ReactNode);
  /** What rows are sorted by; without it the column cannot be sorted by. */
  readonly sort?: Key<Row> | ((row: Row) => string | number);
  /** Numbers stand at the right. */
  readonly is_number?: boolean;
}

/** The columns of a table; what is `false` is left out. */
export type Columns<Row> = readonly (Column<Row> | false)[];

interface TableProps<Row> {
  /** What the table holds, for those who do not see it. */
  readonly label: string;
  readonly columns: Columns<Row>;
  readonly rows: readonly Row[];
  /** By their id unless it says otherwise. */
  readonly keyOf?: ((row: Row) => string) | undefined;
  /** What is done when a row is chosen, by its button in the first column. */
  readonly onOpen?: ((row: Row) => void) | undefined;
  readonly isOpen?: ((row: Row) => boolean) | undefined;
}

/** So many rows are drawn at once: thousands would make a browser slow. */
const AT_ONCE = 100;

/** A table that sorts by its columns; on a narrow screen each row is a block of names and values. */
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
        {/* The roles stay what they are where the style makes blocks of the rows. */}
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
                      // One thing beside its title, where the row is a block.
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

/** A field of a row as people read it: a moment, a number, a list, or its text. */
function cellOf<Row>({ cell }: Column<Row>, row: Row): ReactNode {
  if (typeof cell === 'function') return cell(row);
  const value: unknown = row[cell];
  if (typeof value === 'number') return num(value);
  if (Array.isArray(value)) return value.join(', ');
  return typeof value === 'string' && /(?:^|_)at$/.test(cell) ? <TimeText at={value} /> : (value as ReactNode);
}

interface Sorting {
  /** Of the column. */
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

/** What stands in the place of a list without entries: a title, and how there come to be some. */
type Empty = readonly [title: string, more?: ReactNode];

interface ListPageProps<Name extends OperationName> extends Omit<TableProps<RowOf<Name>>, 'label' | 'rows'> {
  readonly operation: Name;
  readonly input?: InputOf<Name>;
  /** What the list is called; above it unless it is part of something else. */
  readonly title: string;
  readonly is_part?: boolean;
  readonly note?: ReactNode;
  /** Beside the title. */
  readonly actions?: ReactNode;
  readonly filters?: readonly Filter[];
  /** What the button says that takes all filters away. */
  readonly clear?: string;
  readonly empty: Empty | ((answer: AnswerOf<Name>) => Empty);
  /** The same where filters are set. */
  readonly narrowed?: Empty;
  /** Which entries of the answer, where not all of its list. */
  readonly rows?: (answer: AnswerOf<Name>) => readonly RowOf<Name>[];
  /** So many entries on a page; all of them without. */
  readonly page?: number;
  /** What the address calls the beginning of a page; as the operation does unless it says otherwise. */
  readonly turn?: string;
  /** What the address calls the open entry. */
  readonly opens?: string;
  readonly drawer?: (row: RowOf<Name>, close: () => void) => ReactNode;
  readonly every_seconds?: number;
  /** Of the skeleton. */
  readonly lines?: number;
}

/**
 * The list that an operation answers: narrowed, paged and with one entry open beside it by the page's address, with what is said
 * where there is nothing.
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
  const asked = useOperation(operation, { ...input, ...paged } as InputOf<Name>, every);
  const listOf = (answer: AnswerOf<Name>) => answer[list_name as keyof AnswerOf<Name>] as readonly RowOf<Name>[];
  const rowsOf = props.rows ?? listOf;
  const is_narrowed = Object.keys(clearedFilters(filters ?? [])).some((name) => search[name]);
  const emptyOf = (answer: AnswerOf<Name>) => (typeof empty === 'function' ? empty(answer) : empty);
  const nothing = ([words, more]: Empty) => <EmptyState title={words}>{more}</EmptyState>;
  const open = asked.data && opens ? rowsOf(asked.data).find((row) => keyOf(row) === search[opens]) : undefined;
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
      <Loaded query={asked} lines={lines}>
        {(answer) => (
          <>
            {rowsOf(answer).length === 0 ? (
              nothing((is_narrowed && narrowed) || emptyOf(answer))
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

/** Links to files: what each is called, and its address. */
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
