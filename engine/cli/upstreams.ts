import type { AdminOperations, InJson } from '../admin/operations.ts';
import { printableLines } from '../kit/text/printable.ts';
import { listed } from '../kit/text/suggest.ts';
import { administering, type Location } from './admin.ts';
import type { CommandRow } from './commands.ts';
import { EXIT_OK } from './exit-codes.ts';
import { notEmpty, option } from './options.ts';
import { say, showReport, showResult } from './show.ts';
import { type Column, formatList, numbers, withoutEmptyColumns } from './table.ts';
import { formatTimestamp } from './times.ts';

type Found = InJson<Awaited<ReturnType<AdminOperations['listUpstreams']>>>;
type Shown = Found['upstreams'][number];
type Given = Location & { readonly json?: true };
type Change = Given & { readonly name: string; readonly reason?: string };

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

const REASON = [option('--reason <text>', 'for the list of changes', notEmpty)];

/** `appscli upstreams`. */
export const commands: readonly CommandRow[] = [
  {
    name: 'list',
    about: 'all upstreams: state, until when, last failure, requests in flight, by whom drained',
    place: 'either',
    json: 'print a JSON object',
    notes: `The database knows which upstreams are drained. Each running gateway knows the
rest, for itself: ask one with --base-url or APPSCLI_BASE_URL.`,
    examples: ['appscli upstreams list', 'appscli upstreams list --base-url https://gateway.example.com'],
    run: administering(
      (admin, _: Given) => admin('listUpstreams', {}),
      (context, found, { json }) => {
        if (json) return showReport(context, true, found, () => []);
        const rows = found.upstreams.flatMap(rowsOf);
        const brief = (title: string): Column => ({ title, kind: 'brief' });
        const titles = [
          'UPSTREAM',
          'MODEL',
          'STATE',
          'UNTIL',
          ...numbers('IN FLIGHT'),
          brief('LAST FAILURE'),
          brief('BY'),
        ];
        const { columns, rows: shown } = withoutEmptyColumns([...titles, brief('REASON')], rows);
        context.terminal.data(printableLines(formatList(columns, shown, context.terminal.table_columns)));
        say(
          context,
          found.replica === null
            ? 'The database knows which upstreams are drained, and nothing else about them. For that, ask a running gateway: --base-url <url>, or APPSCLI_BASE_URL.'
            : `As the replica ${found.replica} sees them; others may differ, except in what is drained.`,
        );
        return EXIT_OK;
      },
    ),
  },
  {
    name: 'drain',
    about: 'send an upstream no new requests, at every gateway; those under way end as they would',
    arguments: [['<name>', 'its name in gateway.yaml', notEmpty]],
    options: REASON,
    place: 'either',
    json: 'print a JSON object: the upstream, and routes that have none left',
    examples: ['appscli upstreams drain main --reason "moving to another account"'],
    run: administering(
      (admin, { name, reason }: Change) => admin('drainUpstream', { name, reason }),
      (context, done, { name, json }) =>
        showResult(context, done, json, () => {
          const { in_flight } = done.upstream;
          const left = in_flight ? ` ${in_flight} are still under way at the replica asked.` : '';
          say(context, `Drained "${name}": it gets no new requests until "appscli upstreams resume" is run.${left}`);
          const routes = done.routes_without_upstream;
          if (routes.length === 0) return;
          const of = `${routes.length === 1 ? 'The route' : 'The routes'} ${listed(routes)}`;
          say(context, `${of} ${routes.length === 1 ? 'has' : 'have'} no other upstream: such requests are refused.`);
        }),
    ),
  },
  {
    name: 'resume',
    about: 'let an upstream that is drained have requests again, at every gateway',
    arguments: [['<name>', 'its name, as upstreams list shows it', notEmpty]],
    options: REASON,
    place: 'either',
    json: 'print a JSON object: the upstream, and who had drained it',
    examples: ['appscli upstreams resume main'],
    run: administering(
      (admin, { name, reason }: Change) => admin('resumeUpstream', { name, reason }),
      (context, done, { name, json }) =>
        showResult(context, done, json, () => {
          const { by, reason } = done.was_drained;
          const because = reason === null ? '' : `: ${reason}`;
          say(context, `Resumed "${name}", which was drained by ${by}${because}.`);
          if (!done.upstream.configured) say(context, 'The gateway.yaml asked has no such upstream.');
        }),
    ),
  },
];
