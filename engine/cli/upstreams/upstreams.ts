import type { AdminOperations, InJson } from '../../admin/operations.ts';
import type { Fetch } from '../../client/http.ts';
import { printableLines } from '../../kit/text/printable.ts';
import { listed } from '../../kit/text/suggest.ts';
import { type Location, withAdmin } from '../admin.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { say, showReport, showResult } from '../show.ts';
import { type Column, formatList, numbers, withoutEmptyColumns } from '../table.ts';
import { formatTimestamp } from '../times.ts';

type Found = InJson<Awaited<ReturnType<AdminOperations['listUpstreams']>>>;
type Shown = Found['upstreams'][number];
type Given = Location & { readonly json?: true };
type Change = Given & { readonly reason?: string };

/** `appscli upstreams list`: how upstreams are. */
export async function list(context: CommandContext, given: Given, fetch?: Fetch): Promise<number> {
  const found = await withAdmin(context, given, (admin) => admin('listUpstreams', {}), fetch);
  if (given.json) return showReport(context, true, found, () => []);
  const rows = found.upstreams.flatMap(rowsOf);
  const brief = (title: string): Column => ({ title, kind: 'brief' });
  const titles = ['UPSTREAM', 'MODEL', 'STATE', 'UNTIL', ...numbers('IN FLIGHT'), brief('LAST FAILURE'), brief('BY')];
  const { columns, rows: shown } = withoutEmptyColumns([...titles, brief('REASON')], rows);
  context.terminal.data(printableLines(formatList(columns, shown, context.terminal.table_columns)));
  say(
    context,
    found.replica === null
      ? 'The database knows which upstreams are drained, and nothing else about them. For that, ask a running gateway: --base-url <url>, or APPSCLI_BASE_URL.'
      : `As the replica ${found.replica} sees them; others may differ, except in what is drained.`,
  );
  return EXIT_OK;
}

/** `appscli upstreams drain`: has every gateway send an upstream no new requests. */
export async function drain(context: CommandContext, name: string, given: Change, fetch?: Fetch): Promise<number> {
  const wish = { name, reason: given.reason };
  const done = await withAdmin(context, given, (admin) => admin('drainUpstream', wish), fetch);
  return showResult(context, done, given.json, () => {
    const { in_flight } = done.upstream;
    const left = in_flight ? ` ${in_flight} are still under way at the replica asked.` : '';
    say(context, `Drained "${name}": it gets no new requests until "appscli upstreams resume" is run.${left}`);
    const routes = done.routes_without_upstream;
    if (routes.length === 0) return;
    const of = `${routes.length === 1 ? 'The route' : 'The routes'} ${listed(routes)}`;
    say(context, `${of} ${routes.length === 1 ? 'has' : 'have'} no other upstream: such requests are refused.`);
  });
}

/** `appscli upstreams resume`: ends that. Exits 1 when the upstream is not drained. */
export async function resume(context: CommandContext, name: string, given: Change, fetch?: Fetch): Promise<number> {
  const wish = { name, reason: given.reason };
  const done = await withAdmin(context, given, (admin) => admin('resumeUpstream', wish), fetch);
  return showResult(context, done, given.json, () => {
    const { by, reason } = done.was_drained;
    const because = reason === null ? '' : `: ${reason}`;
    say(context, `Resumed "${name}", which was drained by ${by}${because}.`);
    if (!done.upstream.configured) say(context, 'The gateway.yaml asked has no such upstream.');
  });
}

/** A row for the upstream, and one for each of its models that is not as it should be. */
function rowsOf({ name, configured, in_flight, breaker, drained, models, ...whole }: Shown): string[][] {
  const note = !configured ? ' (not in gateway.yaml)' : breaker === 'shadow' ? ' (shadow)' : '';
  const stateCells = ({ state, until }: Pick<Shown, 'state' | 'until'>) => {
    const word = state === 'unknown' ? '' : state.replace('_', '-');
    return [`${word}${note}`.trim(), until === null ? '' : formatTimestamp(until)];
  };
  const under_way = in_flight === null ? '' : String(in_flight);
  const drained_cells = [drained?.by ?? '', drained?.reason ?? ''];
  return [
    [name, '', ...stateCells(whole), under_way, whole.last_failure ?? '', ...drained_cells],
    ...models.map((model) => {
      return [name, model.upstream_model, ...stateCells(model), '', model.last_failure ?? '', '', ''];
    }),
  ];
}
