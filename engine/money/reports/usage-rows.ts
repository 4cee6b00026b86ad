import { formatUsd, nanoToUsd } from '../../kit/money.ts';
import { type CsvCell, formatCsv } from '../../kit/text/csv.ts';
import { DEFAULT_DIMENSIONS, type UsageDimension, type UsageRow } from './usage.ts';

/** A row of usage as JSON has it: adjustments, and what failures may have cost, are told where there are any. */
export function usageJson(given: UsageRow) {
  const { cost_nano_usd, adjusted_nano_usd, possibly_billed_nano_usd, possible_nano_usd, ...row } = given;
  return {
    ...row,
    cost_usd: nanoToUsd(cost_nano_usd),
    ...(adjusted_nano_usd !== 0n && { adjusted_usd: nanoToUsd(adjusted_nano_usd) }),
    ...(possibly_billed_nano_usd !== 0n && { possibly_billed_usd: nanoToUsd(possibly_billed_nano_usd) }),
    ...(possible_nano_usd !== 0n && { possibly_billed_in_cost_usd: nanoToUsd(possible_nano_usd) }),
  };
}

const COUNTS = [
  'requests',
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
] as const;

const POSSIBLE = ['possibly_billed_usd', 'possibly_billed_in_cost_usd'];

/** A CSV file with a line per row, every number exact; a dimension that a row does not have is empty. */
export function usageCsv(rows: readonly UsageRow[], by: readonly UsageDimension[] = DEFAULT_DIMENSIONS): string {
  const cells = rows.map((row): CsvCell[] => [
    ...by.map((dimension) => ({ text: row[dimension] ?? '' })),
    ...COUNTS.map((count) => ({ number: String(row[count]) })),
    { number: formatUsd(row.cost_nano_usd) },
    { number: formatUsd(row.adjusted_nano_usd) },
    { number: formatUsd(row.possibly_billed_nano_usd) },
    { number: formatUsd(row.possible_nano_usd) },
  ]);
  return formatCsv([...by, ...COUNTS, 'cost_usd', 'adjusted_usd', ...POSSIBLE], cells);
}
