import { listed } from '../../base/kit/text/suggest.ts';
import { type AnswerOf, operation } from './admin.ts';
import type { CommandRow } from './commands.ts';
import { notEmpty, option } from './options.ts';
import { say, showReport } from './show.ts';
import { type Column, formatList, numbers, withoutEmptyColumns } from './table.ts';
import { formatTimestamp } from './times.ts';

type Shown = AnswerOf<'listUpstreams'>['upstreams'][number];

/** The upstream argument. */
interface Which {
  readonly name: string;
}

/** A row for the upstream, and one for each of its unhealthy models. */
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

const REASON = [option('--reason <text>', 'reason for the audit log', notEmpty)];
const brief = (title: string): Column => ({ title, kind: 'brief' });
const COLUMNS = [
  ...['UPSTREAM', 'MODEL', 'STATE', 'UNTIL', ...numbers('IN FLIGHT')],
  ...['LAST FAILURE', 'BY', 'REASON'].map(brief),
];

/** `appscli upstreams`. */
export const commands: readonly CommandRow[] = [
  operation('listUpstreams', {
    name: 'list',
    about: 'list upstreams: state, last failure, requests in flight, who drained them',
    notes: `The database contains only drained upstreams. Each running gateway has its own
view of the rest: use --base-url or APPSCLI_BASE_URL.`,
    examples: ['appscli upstreams list', 'appscli upstreams list --base-url https://gateway.example.com'],
    show(context, found, { json }) {
      const { columns, rows } = withoutEmptyColumns(COLUMNS, found.upstreams.flatMap(rowsOf));
      showReport(context, json, found, () => formatList(columns, rows, context.terminal.table_columns));
      const whose =
        found.replica === null
          ? 'The database contains only drained upstreams. For all states use a running gateway: --base-url <url>, or APPSCLI_BASE_URL.'
          : `As seen by replica ${found.replica}; others may differ, except for drained upstreams.`;
      if (!json) say(context, whose);
      return 0;
    },
  }),
  operation<'drainUpstream', Which>('drainUpstream', {
    name: 'drain',
    about: 'stop sending new requests to an upstream, at every gateway; requests in flight finish',
    arguments: [['<name>', 'name of the upstream in gateway.yaml', notEmpty]],
    options: REASON,
    json: 'print a JSON object: the upstream, and routes without another one',
    examples: ['appscli upstreams drain main --reason "moving to another account"'],
    sentence({ upstream: { in_flight }, routes_without_upstream: routes }, { name }) {
      const left = in_flight ? ` The replica still has ${in_flight} in flight.` : '';
      const drained = `Drained "${name}": no new requests until "appscli upstreams resume".${left}`;
      if (routes.length === 0) return drained;
      const [of, have] = routes.length === 1 ? ['The route', 'has'] : ['The routes', 'have'];
      return [drained, `${of} ${listed(routes)} ${have} no other upstream: these requests are rejected.`];
    },
  }),
  operation<'resumeUpstream', Which>('resumeUpstream', {
    name: 'resume',
    about: 'resume a drained upstream, at every gateway',
    arguments: [['<name>', 'name of the upstream, see upstreams list', notEmpty]],
    options: REASON,
    json: 'print a JSON object: the upstream, and who had drained it',
    examples: ['appscli upstreams resume main'],
    sentence({ upstream, was_drained: { by, reason } }, { name }) {
      const resumed = `Resumed "${name}", which was drained by ${by}${reason === null ? '' : `: ${reason}`}.`;
      return upstream.configured ? resumed : [resumed, 'gateway.yaml has no such upstream.'];
    },
  }),
];
