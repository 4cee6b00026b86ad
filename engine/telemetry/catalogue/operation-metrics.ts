import type { MetricSpec } from './metric-spec.ts';

/** Metrics about what is no request of a pipeline. */
export const OPERATION_METRICS = {
  'gateway.sign_ins': {
    kind: 'counter',
    unit: '{step}',
    meaning: 'Steps of sign-ins, by how they ended and, where one did not go well, why',
    labels: ['gateway.sign_in.outcome', 'error.type'],
  },
  'gateway.sessions': {
    kind: 'counter',
    unit: '{step}',
    meaning:
      'Sessions that began, were renewed or ended at the wish of their client, and what of this was refused, by why',
    labels: ['gateway.session.outcome', 'error.type'],
  },
  'gateway.account_checks': {
    kind: 'counter',
    unit: '{person}',
    meaning: 'People the identity provider was asked about, by what it said',
    labels: ['gateway.account_check.outcome'],
  },
  'gateway.admin_changes': {
    kind: 'counter',
    unit: '{change}',
    meaning:
      'Changes through the admin API and of the gateway itself, by what was to be done, by what kind of caller and, where it was refused, why',
    labels: ['gateway.admin.action', 'gateway.admin.actor_kind', 'error.type'],
  },
  'gateway.reloads': {
    kind: 'counter',
    unit: '{reload}',
    meaning: 'Reloads of the configuration, by whether the new one is in force',
    labels: ['gateway.reload.result'],
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;
