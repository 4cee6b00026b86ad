import { type Dashboard, PICKED, RATE_RANGE } from '../dashboard.ts';
import { areas, lines, number, rows, states } from '../panels.ts';
import { createQueries } from '../promql.ts';

const q = createQueries(PICKED, RATE_RANGE);
const RANGE = '$__range';
const EACH = 'by (instance)';
const LOOP = ['instance'] as const;

/** The gateway as a program: what it has room for, what waits, who changed what. */
export const GATEWAY: Dashboard = {
  id: 'gateway',
  title: 'the gateway itself',
  description: 'Processes, their memory and event loops, the database and what waits for it, reloads, sign-ins.',
  sections: [
    {
      title: 'Now',
      panels: [
        number({
          title: 'Gateways',
          description: 'Processes that report.',
          queries: [[`count(${q.gauge('gateway.build.info')})`, 'gateways']],
          unit: 'short',
        }),
        number({
          title: 'Configurations',
          description:
            'Different configurations in force. More than one for longer than a rollout means that a gateway did not take the new one.',
          queries: [[`count(count by (gateway_config_hash) (${q.gauge('gateway.build.info')}))`, 'configurations']],
          unit: 'short',
          steps: [[2, 'yellow']],
        }),
        number({
          title: 'Reloads that fail',
          description:
            'Gateways whose files hold a configuration that could not be put in force. /readyz and appscli check say why.',
          queries: [[`count(${q.gauge('gateway.config.reload_ok')} == 0) or vector(0)`, 'failing']],
          unit: 'short',
          steps: [[1, 'red']],
        }),
        number({
          title: 'Without database',
          description: 'Gateways whose heartbeat is not written to the database.',
          queries: [[`count(${q.gauge('gateway.database.up')} == 0) or vector(0)`, 'away']],
          unit: 'short',
          steps: [[1, 'red']],
        }),
        number({
          title: 'Requests under way',
          description: 'Of all pipelines.',
          queries: [[`sum(${q.gauge('gateway.inflight')})`, 'under way']],
          unit: 'short',
        }),
        number({
          title: 'Running for',
          description: 'The gateway that was started last.',
          queries: [[`min(${q.gauge('process.uptime')})`, 'uptime']],
          unit: 's',
        }),
        rows({
          title: 'What runs',
          description: 'Version, Node.js and configuration of each gateway.',
          queries: [
            [
              `max by (instance, service_version, process_runtime_version, gateway_config_hash) (${q.gauge('gateway.build.info')})`,
              '',
            ],
          ],
          unit: 'none',
          width: 16,
          height: 6,
        }),
        rows({
          title: 'Configuration loaded',
          description: 'When the configuration in force was loaded.',
          queries: [[`1000 * max ${EACH} (${q.gauge('gateway.config.loaded_at')})`, '']],
          unit: 'dateTimeFromNow',
          width: 8,
          height: 6,
        }),
      ],
    },
    {
      title: 'Process',
      panels: [
        lines({
          title: "Gateway's own time, 99 %",
          description: 'From the head of a request until its first attempt begins, by surface.',
          queries: [[q.quantile(0.99, 'gateway.overhead.duration', ['gateway.surface']), '{{gateway_surface}}']],
          unit: 's',
        }),
        lines({
          title: 'Event loop delay',
          description: 'How late the event loop gets to what is due. Streams stutter from about 100 ms on.',
          queries: [
            [`max ${EACH} (${q.gauge('nodejs.eventloop.delay.p50')})`, '{{instance}} 50 %'],
            [`max ${EACH} (${q.gauge('nodejs.eventloop.delay.p99')})`, '{{instance}} 99 %'],
            [`max ${EACH} (${q.gauge('nodejs.eventloop.delay.max')})`, '{{instance}} worst'],
          ],
          unit: 's',
        }),
        lines({
          title: 'Event loop in use',
          description: 'Part of the time in which the event loop was active. Near 100 % another process is needed.',
          queries: [
            [
              `${q.rate('nodejs.eventloop.time', LOOP, { 'nodejs.eventloop.state': 'active' })} / ${q.rate('nodejs.eventloop.time', LOOP)}`,
              '{{instance}}',
            ],
          ],
          unit: 'percentunit',
          max: 1,
        }),
        lines({
          title: 'Processor',
          description: 'Processors in use; 1 is one of them all the time.',
          queries: [[q.rate('process.cpu.time', LOOP), '{{instance}}']],
          unit: 'short',
        }),
        lines({
          title: 'Memory',
          description: 'Physical memory, and what of it values of the program take.',
          queries: [
            [`max ${EACH} (${q.gauge('process.memory.usage')})`, '{{instance}} process'],
            [`sum ${EACH} (${q.gauge('v8js.memory.heap.used')})`, '{{instance}} heap'],
          ],
          unit: 'bytes',
        }),
        lines({
          title: 'Room that is taken',
          description:
            'Of what there may be: connections, bytes of bodies, heap, spool. At 100 % requests are refused as overloaded.',
          queries: [
            [
              `max ${EACH} (${q.gauge('gateway.connections')} / ${q.gauge('gateway.connections.limit')})`,
              '{{instance}} connections',
            ],
            [
              `max ${EACH} (${q.gauge('gateway.bodies.held')} / ${q.gauge('gateway.bodies.limit')})`,
              '{{instance}} bodies',
            ],
            [
              `sum ${EACH} (${q.gauge('v8js.memory.heap.used')}) / sum ${EACH} (${q.gauge('gateway.heap.limit')})`,
              '{{instance}} heap',
            ],
            [
              `max ${EACH} (${q.gauge('gateway.spool.size')} / ${q.gauge('gateway.spool.limit')})`,
              '{{instance}} spool',
            ],
          ],
          unit: 'percentunit',
        }),
      ],
    },
    {
      title: 'Database, ledger, spool',
      panels: [
        lines({
          title: 'Ledger lag',
          description: 'For how long requests that are over have waited for the ledger with none being written.',
          queries: [
            [
              `max by (instance, gateway_waiting_place) (${q.gauge('gateway.ledger.lag')})`,
              '{{instance}} {{gateway_waiting_place}}',
            ],
          ],
          unit: 's',
        }),
        lines({
          title: 'Waiting for the database',
          description: 'Requests that are over and audit records, in memory or in the spool.',
          queries: [
            [
              `sum by (gateway_waiting_place) (${q.gauge('gateway.ledger.waiting')})`,
              'requests, {{gateway_waiting_place}}',
            ],
            [
              `sum by (gateway_waiting_place) (${q.gauge('gateway.audit.waiting')})`,
              'audit records, {{gateway_waiting_place}}',
            ],
          ],
          unit: 'short',
        }),
        lines({
          title: 'Reservations and leases',
          description:
            'Reservations by whether they were placed in leased room or waited for the database, and what happened to leases.',
          queries: [
            [q.rate('gateway.reservations', ['gateway.reservation.path']), '{{gateway_reservation_path}}'],
            [q.rate('gateway.leases', ['gateway.lease.event']), 'leases {{gateway_lease_event}}'],
          ],
          unit: 'reqps',
        }),
        lines({
          title: 'Spool',
          description: 'Size on the disk. It empties when the database is back.',
          queries: [[`max ${EACH} (${q.gauge('gateway.spool.size')})`, '{{instance}}']],
          unit: 'bytes',
        }),
        number({
          title: 'Audit records lost',
          description: 'In the time shown: the database was away for too long, or could not store them.',
          queries: [[`${q.count('gateway.audit.lost', RANGE)} or vector(0)`, 'lost']],
          unit: 'short',
          height: 8,
          steps: [[1, 'red']],
        }),
        states(
          {
            title: 'Database',
            description: 'Whether the heartbeat of each gateway is written.',
            queries: [[`min ${EACH} (${q.gauge('gateway.database.up')})`, '{{instance}}']],
            unit: 'none',
            width: 8,
          },
          { '0': ['away', 'red'], '1': ['there', 'green'] },
        ),
      ],
    },
    {
      title: 'People and changes',
      panels: [
        areas({
          title: 'Sign-ins',
          description: 'Steps of sign-ins, by how they ended.',
          queries: [
            [
              q.rate('gateway.sign_ins', ['gateway.sign_in.outcome', 'error.type']),
              '{{gateway_sign_in_outcome}} {{error_type}}',
            ],
          ],
          unit: 'cps',
        }),
        areas({
          title: 'Sessions',
          description: 'Sessions that began, were renewed or ended, and what of this was refused.',
          queries: [
            [
              q.rate('gateway.sessions', ['gateway.session.outcome', 'error.type']),
              '{{gateway_session_outcome}} {{error_type}}',
            ],
          ],
          unit: 'cps',
        }),
        rows({
          title: 'Changes by administrators',
          description: 'In the time shown. appscli audit changes has who and what.',
          queries: [
            [
              q.count('gateway.admin_changes', RANGE, [
                'gateway.admin.action',
                'gateway.admin.actor_kind',
                'error.type',
              ]),
              '',
            ],
          ],
          unit: 'short',
        }),
        rows({
          title: 'Reloads',
          description: 'In the time shown.',
          queries: [[q.count('gateway.reloads', RANGE, ['gateway.reload.result']), '']],
          unit: 'short',
          width: 6,
        }),
        rows({
          title: 'Account checks',
          description: 'People the identity provider was asked about, in the time shown.',
          queries: [[q.count('gateway.account_checks', RANGE, ['gateway.account_check.outcome']), '']],
          unit: 'short',
          width: 6,
        }),
      ],
    },
  ],
};
