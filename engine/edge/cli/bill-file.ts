import { isUtf8 } from 'node:buffer';
import { readFileSync, statSync } from 'node:fs';
import { CsvError, type Info, parse } from 'csv-parse/sync';
import type { StartError } from '../../base/contract/start-error.ts';
import { printable } from '../../base/kit/text/printable.ts';
import { parseDate } from '../../base/kit/times.ts';
import type { BilledCost } from '../../domain/budget/reports/reconcile.ts';
import { usageError } from './commands.ts';

export type BillColumns = Readonly<Partial<Record<'day' | 'model' | 'cost', string>>>;

const USUAL_NAMES = {
  day: ['day', 'date', 'usage_date'],
  model: ['model', 'model_id'],
  cost: ['cost', 'amount', 'cost_usd', 'amount_usd'],
  currency: ['currency'],
} as const;

/** Far above the size of a bill per model and day. The whole file is in memory. */
const BYTES_MAX = 200 * 1024 * 1024;
const NO_AMOUNT = 'expected a number such as 1234.56 or -0.5, without separators, currency signs and parentheses';
const RECORD_MAX = 1024 * 1024;
/** Amounts are summed in atto-USD, because bills may be more precise than nano-USD. */
const ATTO_DIGITS = 18;
const ATTO_PER_NANO = 10n ** 9n;

type Wrong = (position: number | string, message: string) => StartError;

/** A bill from a CSV file, summed by day and model. Raises StartError (exit code 64) with problem and position. */
export function readBill(file: string, columns: BillColumns = {}): BilledCost[] {
  const wrong: Wrong = (position, message) => usageError(`${file}:${position}: ${message}`);
  try {
    return parseBill(bytesOf(file), columns, wrong);
  } catch (error) {
    throw error instanceof CsvError ? wrong(String(error.lines), `invalid CSV: ${printable(error.message)}`) : error;
  }
}

function bytesOf(file: string): Buffer {
  let bytes: Buffer;
  try {
    const { size } = statSync(file);
    if (size > BYTES_MAX) throw usageError(`${file} is larger than 200 MiB, too large for a bill per model and day`);
    bytes = readFileSync(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw usageError(code === 'ENOENT' ? `there is no file ${file}` : `cannot read ${file}: ${code}`);
  }
  if (isUtf8(bytes)) return bytes;
  throw usageError(`${file} is not UTF-8; save it as CSV in UTF-8`);
}

function parseBill(bytes: Buffer, columns: BillColumns, wrong: Wrong): BilledCost[] {
  let reader: LineReader | undefined;
  const totals = new Map<string, { day: string; model: string; atto: bigint }>();
  parse(bytes, {
    bom: true,
    // By default the first line decides for all.
    record_delimiter: ['\r\n', '\n', '\r'],
    skip_empty_lines: true,
    max_record_size: RECORD_MAX,
    on_record(record: string[], { lines: line }: Info) {
      if (reader === undefined) {
        reader = createLineReader(record, line, columns, wrong);
        return null;
      }
      const { day, model, atto } = reader(record, line);
      const name = JSON.stringify([day, model]);
      const total = totals.get(name) ?? { day, model, atto: 0n };
      total.atto += atto;
      totals.set(name, total);
      // Discard the record to save memory.
      return null;
    },
  });
  if (reader === undefined) throw wrong(1, 'the file is empty; a bill begins with a line of column names');
  if (totals.size === 0) throw wrong(2, 'no lines below the column names');
  return [...totals.values()].map(({ day, model, atto }) => ({ day, model, cost_nano_usd: nanoOf(atto) }));
}

type LineReader = (record: readonly string[], line: number) => { day: string; model: string; atto: bigint };

function createLineReader(titles: readonly string[], line: number, columns: BillColumns, wrong: Wrong): LineReader {
  if (titles.length === 1 && /[;\t|]/.test(titles[0]!))
    throw wrong(line, 'the columns are not separated by commas; save the file with commas');
  const columnOf = (what: keyof typeof USUAL_NAMES, column_name: string | undefined): number | undefined => {
    const usual: readonly string[] = column_name === undefined ? USUAL_NAMES[what] : [column_name.toLowerCase()];
    const found = titles.flatMap((title, i) => (usual.includes(title.trim().toLowerCase()) ? [i] : []));
    const [only, another] = found;
    if (another !== undefined) {
      const both = found.map((i) => quoted(titles[i]!)).join(' and ');
      throw wrong(`${line}:${another + 1}`, `${both} may both be the ${what}; choose with --columns ${what}=NAME`);
    }
    if (only !== undefined || what === 'currency') return only;
    const wanted = column_name === undefined ? `the ${what} (${usual.join(', ')})` : quoted(column_name);
    const there = titles.map(quoted).join(', ');
    throw wrong(line, `no column for ${wanted} among ${there}; choose with --columns ${what}=NAME`);
  };
  const [day_at, model_at, cost_at] = (['day', 'model', 'cost'] as const).map(
    (what) => columnOf(what, columns[what])!,
  ) as [number, number, number];
  const currency_at = columnOf('currency', undefined);
  return (record, at) => {
    const value = <T>(column: number, read: (text: string) => T): T => {
      try {
        return read(record[column]!.trim());
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        throw wrong(`${at}:${column + 1}`, `${quoted(titles[column]!)} ${error.message}`);
      }
    };
    if (currency_at !== undefined) {
      value(currency_at, (text) => {
        if (text.toUpperCase() !== 'USD') throw new RangeError(`is ${quoted(text)}, but the ledger is in USD`);
      });
    }
    return { day: value(day_at, dayOf), model: value(model_at, modelOf), atto: value(cost_at, parseAmount) };
  };
}

const SHOWN_MAX = 40;

function quoted(text: string): string {
  return JSON.stringify(printable(text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text));
}

function modelOf(text: string): string {
  if (text === '') throw new RangeError('is empty; remove lines without a model, such as sums and taxes');
  return text;
}

function dayOf(text: string): string {
  const time = /^(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|\+00:00| UTC)?)?$/.exec(text);
  const day = time?.[1];
  if (day === undefined || parseDate(day) === undefined || !/^(?:19[789]|2[01])/.test(day)) {
    throw new RangeError(`is ${quoted(text)}, expected a day such as 2027-01-31; remove lines without a day`);
  }
  return day;
}

export function parseAmount(text: string): bigint {
  const parts = /^(-?)(\d{1,15})(?:\.(\d{1,30}))?(?:[eE]([+-]?\d{1,2}))?$/.exec(text);
  if (parts === null) throw new RangeError(`is ${quoted(text)}, ${NO_AMOUNT}`);
  const [, sign, whole = '', fraction = '', exponent = '0'] = parts;
  const digits = BigInt(whole + fraction.replace(/0+$/, ''));
  const shift = Number(exponent) + ATTO_DIGITS - fraction.replace(/0+$/, '').length;
  if (shift < 0 && digits % 10n ** BigInt(-shift) !== 0n) {
    throw new RangeError(`is ${quoted(text)}, which has more than ${ATTO_DIGITS} decimals`);
  }
  const atto = shift < 0 ? digits / 10n ** BigInt(-shift) : digits * 10n ** BigInt(shift);
  if (atto >= 10n ** BigInt(ATTO_DIGITS + 15)) throw new RangeError(`is ${quoted(text)}, which is implausibly large`);
  return sign === '-' ? -atto : atto;
}

/** Rounds atto-USD to nano-USD, half away from zero. */
export function nanoOf(atto: bigint): bigint {
  const half = atto < 0n ? -ATTO_PER_NANO / 2n : ATTO_PER_NANO / 2n;
  return (atto + half) / ATTO_PER_NANO;
}
