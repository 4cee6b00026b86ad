import type { OperationName } from '../../contract/telemetry.ts';

/** What is known of the span of an operation. */
export interface OperationSpanSpec {
  /** A sentence without its full stop. */
  readonly meaning: string;
  /** By name, what an attribute says: a sentence without its full stop. Others are left out. */
  readonly attributes: Readonly<Record<string, string>>;
}

const REQUEST = { 'gateway.request_id': 'Identifier of the request, as in its answer and in the log' } as const;
const ERROR = { 'error.type': 'What went wrong, in one word; absent when it went well' } as const;
const HASH = { 'gateway.config.hash': 'Hash of the configuration in force' } as const;

/**
 * Spans of what is no request of a pipeline. Each is the root of a trace, unless its caller sent a `traceparent`. None says who
 * it was: that is in the log and in `admin_changes`.
 */
export const OPERATION_SPANS = {
  'gateway.sign_in': {
    meaning: 'A step of a sign-in: it was begun, or the person came back from the identity provider',
    attributes: {
      'gateway.sign_in.outcome': 'begun, approved, declined (by the person), refused (by provider or gateway), failed',
      ...REQUEST,
      ...ERROR,
    },
  },
  'gateway.session': {
    meaning: 'A session began, was renewed or ended at the wish of its client',
    attributes: {
      'gateway.session.outcome': 'began, repeated (an answer that got lost), renewed, refused, ended, failed',
      ...REQUEST,
      ...ERROR,
    },
  },
  'gateway.account_check': {
    meaning: 'The identity provider was asked whether somebody may stay',
    attributes: { 'gateway.account_check.outcome': 'verified, not_admitted, refused, unaskable, busy, unavailable' },
  },
  'gateway.admin_change': {
    meaning:
      'Somebody changed something through the admin API or tried to, or the gateway did because of what the identity provider says; what commands change is in `admin_changes` alone',
    attributes: {
      'gateway.admin.action': 'What was to be done, as `admin_changes` names it',
      'gateway.admin.actor_kind': 'person, service, gateway, or none where nobody was recognised',
      'gateway.admin.subject': 'Identifier of the token, session or grant that was made or changed',
      ...REQUEST,
      ...ERROR,
    },
  },
  'gateway.reload': {
    meaning: 'The configuration was read again',
    attributes: {
      'gateway.reload.result': 'in_force or failed',
      'gateway.reload.changed_files': 'How many files are different from those in force before',
      'gateway.reload.needs_restart': 'Keys whose old value stays in force until a restart',
      'gateway.reload.findings': 'Codes of the findings that kept it from being put in force',
      ...HASH,
      ...ERROR,
    },
  },
  'gateway.start': {
    meaning: 'A gateway started, from the start of its process until it listened',
    attributes: { 'gateway.start.pipelines': 'How many pipelines it serves', ...HASH },
  },
} as const satisfies Readonly<Record<OperationName, OperationSpanSpec>>;
