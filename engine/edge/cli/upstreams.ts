import { listed } from '../../base/kit/text/suggest.ts';
import { type AnswerOf, operation } from './admin.ts';
import type { CommandRow } from './commands.ts';
import { fields } from './gateway-admin.ts';
import { type Columns, formatList, formatTimestamp, say, showReport, tableOf } from './output.ts';

type Upstream = AnswerOf<'listUpstreams'>['upstreams'][number];

interface Which {
  readonly name: string;
}

const rowsOf = (upstream: Upstream) => [
  { ...upstream, upstream, model: null },
  ...upstream.models.map((model) => {
    return { ...model, upstream, model: model.upstream_model, in_flight: null, drained: null };
  }),
];

type Row = ReturnType<typeof rowsOf>[number];

function stateOf({ state, upstream: { configured, breaker } }: Row): string {
  const note = !configured ? ' (not in gateway.yaml)' : breaker === 'shadow' ? ' (shadow)' : '';
  return `${state === 'unknown' ? '' : state.replace('_', '-')}${note}`.trim();
}

const COLUMNS: Columns<Row> = [
  ['UPSTREAM', ({ upstream }) => upstream.name],
  ['MODEL', ({ model }) => model],
  ['STATE', stateOf],
  ['UNTIL', ({ until }) => until && formatTimestamp(until)],
  ['IN FLIGHT', ({ in_flight }) => (in_flight === null ? '' : String(in_flight)), 'number'],
  ['LAST FAILURE', ({ last_failure }) => last_failure, 'brief'],
  ['BY', ({ drained }) => drained?.by ?? null, 'brief'],
  ['REASON', ({ drained }) => drained?.reason ?? null, 'brief'],
];

export const commands: readonly CommandRow[] = [
  operation('listUpstreams', {
    name: 'list',
    about: 'list upstreams: state, last failure, requests in flight, who drained them',
    notes: `The database contains only drained upstreams. Each running gateway has its own
view of the rest: use --base-url or APPSCLI_BASE_URL.`,
    examples: ['appscli upstreams list', 'appscli upstreams list --base-url https://gateway.example.com'],
    show(context, found, { json }) {
      const rows = found.upstreams.flatMap(rowsOf);
      showReport(context, json, found, () => formatList(...tableOf(COLUMNS, rows), context.terminal.table_columns));
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
    arguments: [['<name>', 'name of the upstream in gateway.yaml']],
    options: fields('drainUpstream', 'reason'),
    json: 'print a JSON object: the upstream, and routes without another upstream',
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
    arguments: [['<name>', 'name of the upstream, see upstreams list']],
    options: fields('resumeUpstream', 'reason'),
    json: 'print a JSON object: the upstream, and who had drained it',
    examples: ['appscli upstreams resume main'],
    sentence({ upstream, was_drained: { by, reason } }, { name }) {
      const resumed = `Resumed "${name}", which was drained by ${by}${reason === null ? '' : `: ${reason}`}.`;
      return upstream.configured ? resumed : [resumed, 'gateway.yaml has no such upstream.'];
    },
  }),
];
