import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { adminAtGateway } from './gateway-admin.ts';
import { showReport } from './show.ts';
import { formatTable, numbers, withoutEmptyColumns } from './table.ts';

const KINDS = ['input', 'output', 'cache_read', 'cache_write_5m'] as const;

const COLUMNS = ['MODEL', ...numbers('WINDOW', 'MAX OUTPUT', 'INPUT', 'OUTPUT', 'CACHE R', 'CACHE W')];

type Prices = Readonly<Record<(typeof KINDS)[number], number>>;

/** `appscli models`: the models that the signed-in person may use, with prices. */
export async function models(
  context: CommandContext,
  options: { readonly baseUrl?: string; readonly json?: true },
): Promise<number> {
  const { base_url, admin } = await adminAtGateway(context, options.baseUrl);
  const { models: usable, no_models_because } = await admin('listModels', {});
  return showReport(context, options.json, { base_url, models: usable, no_models_because }, () => {
    if (usable.length === 0) return [`None: ${no_models_because}.`];
    const rows = usable.map(({ id, context_window, max_output_tokens, prices }) => [
      id,
      ...[context_window, max_output_tokens].map((tokens) => (tokens === null ? '' : String(tokens))),
      ...KINDS.map((kind) => range(prices.map(({ usd_per_million_tokens }) => usd_per_million_tokens[kind]))),
    ]);
    const table = withoutEmptyColumns(COLUMNS, rows);
    return [
      ...formatTable(table.columns, table.rows, context.terminal.table_columns),
      '',
      'Window and maximum output in tokens, prices in USD per million tokens.',
    ];
  });
}

/** `appscli models`. */
export const commands: readonly CommandRow[] = [
  {
    place: 'gateway',
    json: 'print the response of the gateway as JSON',
    examples: ['appscli models', 'appscli models --base-url https://gateway.example.com --json'],
    run: models,
  },
];

/** One price, or the range across upstreams. */
function range(prices: readonly Prices[keyof Prices][]): string {
  if (prices.length === 0) return '';
  const [least, most] = [Math.min(...prices), Math.max(...prices)];
  return least === most ? String(least) : `${least}-${most}`;
}
