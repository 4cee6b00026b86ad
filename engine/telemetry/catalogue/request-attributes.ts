import { ATTEMPT_REASONS, CERTAINTIES, DROP_REASONS } from '../../contract/forwarding.ts';
import type { AttributeSpec } from './span-spec.ts';

const LIFETIMES = ['none', '5m', '1h'];

/** Attributes of what the gateway tells about requests, by name. The dollars are those of gateway.yaml's prices. */
export const REQUEST_ATTRIBUTES = {
  'http.request.method': { kind: 'string', meaning: 'HTTP method' },
  'http.route': { kind: 'string', meaning: 'Path of the pipeline that served the request, such as `/v1/models/*`' },
  'http.response.status_code': { kind: 'number', meaning: 'HTTP status; 499 where the client left before any' },
  'url.scheme': { kind: 'string', meaning: 'Scheme of the public URL', values: ['http', 'https'] },
  'server.address': { kind: 'string', meaning: 'Host of the public URL; of an attempt that of the upstream' },
  'server.port': { kind: 'number', meaning: 'Port of it' },
  'user_agent.name': { kind: 'string', meaning: 'Product name in the user-agent header, where it looks like one' },
  'user_agent.version': {
    kind: 'string',
    meaning: 'Product version in the user-agent header, where it looks like one',
  },
  'error.type': {
    kind: 'string',
    meaning:
      "What went wrong: an error code of the gateway's, the name of a row of the failover table, an HTTP status, or for a sign-in why it was refused",
  },
  'enduser.id': {
    kind: 'string',
    meaning: 'Pseudonym of the caller, a keyed hash; only with `telemetry.caller: pseudonym`',
  },
  'gateway.request_id': {
    kind: 'string',
    meaning: 'Identifier of the request, also in the x-gateway-request-id header and the audit record',
  },
  'gateway.config.hash': { kind: 'string', meaning: 'Hash of the configuration in force' },
  'gateway.pipeline': { kind: 'string', meaning: 'Pipeline that served the request' },
  'gateway.protocol': {
    kind: 'string',
    meaning: 'Protocol the pipeline serves',
    values: ['messages', 'count_tokens', 'models', 'chat', 'responses', 'none'],
  },
  'gateway.outcome': {
    kind: 'string',
    meaning:
      'How the request ended: answered; refused by the gateway; refused by the upstream, which found the request wrong; failed; aborted by the client',
    values: ['answered', 'refused', 'upstream_refused', 'failed', 'aborted'],
  },
  'gateway.status_class': { kind: 'string', meaning: 'Class of the HTTP status', values: ['2xx', '3xx', '4xx', '5xx'] },
  'gateway.error.code': { kind: 'string', meaning: "Code of the gateway's own error, as in the reference of errors" },
  'gateway.error.stage': { kind: 'string', meaning: 'Stage of the pipeline that raised the error' },
  'gateway.team': { kind: 'string', meaning: 'Team whose budget the caller shares' },
  'gateway.project': { kind: 'string', meaning: 'Project of the caller' },
  'gateway.token_group': { kind: 'string', meaning: 'Token group of the caller' },
  'gateway.caller.kind': {
    kind: 'string',
    meaning: 'How the caller proved who it is',
    values: ['access_token', 'session'],
  },
  'gateway.model': { kind: 'string', meaning: 'Model of gateway.yaml that was asked for, aliases resolved' },
  'gateway.model.unknown': {
    kind: 'string',
    meaning: 'What was asked for as a model where there is no such model, cut, and only where it looks like a name',
  },
  'gateway.upstream': { kind: 'string', meaning: 'Upstream that the request, attempt or fallback was with' },
  'gateway.upstream.protocol': {
    kind: 'string',
    meaning: 'Protocol in which the upstream was asked, where that is not the one of the request',
  },
  'gateway.upstream.region': { kind: 'string', meaning: 'Region of the upstream' },
  'gateway.upstream.request_id': { kind: 'string', meaning: "The upstream's own identifier of the request" },
  'gateway.route.rule': { kind: 'string', meaning: 'Routing rule that decided, or `default`' },
  'gateway.route.candidates': { kind: 'strings', meaning: 'Upstreams that could serve the request, in order' },
  'gateway.route.dropped': { kind: 'strings', meaning: 'Upstreams that were not asked, each as `name: reason`' },
  'gateway.fallback': {
    kind: 'boolean',
    meaning: 'True where the request went to another upstream than the one it would have gone to',
  },
  'gateway.fallback.reason': {
    kind: 'string',
    meaning: 'Why: the reason after a failed attempt, or why an upstream was not asked',
    values: [
      ...Object.keys(ATTEMPT_REASONS).filter((reason) => reason.startsWith('next_')),
      ...Object.keys(DROP_REASONS),
    ],
  },
  'gateway.attempts': {
    kind: 'number',
    meaning: 'Number of attempts to have the request served, where there were several',
  },
  'gateway.attempt': { kind: 'number', meaning: 'Number of the attempt, from 1' },
  'gateway.attempt.reason': {
    kind: 'string',
    meaning: 'What happened after the attempt',
    values: Object.keys(ATTEMPT_REASONS),
  },
  'gateway.attempt.outcome': {
    kind: 'string',
    meaning: 'Row of the failover table that the attempt met; of spans only where it did not serve',
  },
  'gateway.attempt.certainty': {
    kind: 'string',
    meaning: 'What is known of an attempt that did not serve: whether it left, and whether the upstream answered it',
    values: CERTAINTIES,
  },
  'gateway.attempt.sends': { kind: 'number', meaning: 'How often it was sent, where that is not once' },
  'gateway.unconfirmed_attempts': {
    kind: 'number',
    meaning: 'Attempts that an upstream may have accepted and did not answer, where there are any',
  },
  'gateway.translation.losses': {
    kind: 'strings',
    meaning: 'Rules of translation that changed or dropped something, by name',
  },
  'gateway.rewrites': { kind: 'strings', meaning: 'Body fields that the gateway changed on the way up, by name' },
  'gateway.replaced': {
    kind: 'strings',
    meaning: 'Stages that replaced something in the texts of the answer, or in shadow mode would have, by id',
  },
  'gateway.cache.requested': {
    kind: 'string',
    meaning: 'Longest lifetime of the prompt cache that was asked for',
    values: LIFETIMES,
  },
  'gateway.cache.effective': {
    kind: 'string',
    meaning: 'Longest lifetime that the upstream was asked for',
    values: LIFETIMES,
  },
  'gateway.cache.downgraded': {
    kind: 'boolean',
    meaning: 'True where five minutes were asked for in the place of an hour',
  },
  'gateway.cache.downgrade.reason': {
    kind: 'string',
    meaning: 'Why',
    values: ['upstream_unsupported'],
  },
  'gateway.cost_usd': { kind: 'double', meaning: 'What it cost, in US dollars' },
  'gateway.cost.source': {
    kind: 'string',
    meaning: 'What the cost was taken from, where the upstream did not report what was used',
  },
  'gateway.possibly_billed_usd': {
    kind: 'double',
    meaning: 'What upstreams may bill for attempts that they did not answer, in US dollars',
  },
  'gateway.reserved_usd': { kind: 'double', meaning: 'What was reserved before the request left, in US dollars' },
  'gateway.unreserved': {
    kind: 'boolean',
    meaning: 'True where it went out with nothing reserved, because the database was away',
  },
  'gateway.budget.rule': { kind: 'string', meaning: 'Rule of the limit in money with the least room for the request' },
  'gateway.budget.window': {
    kind: 'string',
    meaning: 'Window of that limit',
    values: ['day', 'week', 'month'],
  },
  'gateway.budget.used_ratio': {
    kind: 'double',
    meaning: 'Part of that limit that was spent or reserved, this request included',
  },
  'gateway.budget.remaining_usd': { kind: 'double', meaning: 'What was left of that limit, in US dollars' },
  'gateway.time_to_first_byte': {
    kind: 'double',
    meaning: 'Seconds from forwarding to the first byte of an answer that is no stream',
  },
  'gateway.aborted': { kind: 'boolean', meaning: 'True where the client left before the end' },
  'gateway.drained': { kind: 'boolean', meaning: 'True where the answer was read on for its bill after that' },
  'gateway.shadow': { kind: 'strings', meaning: 'What held in shadow mode, by name' },
  'gateway.sampled.reason': {
    kind: 'string',
    meaning: 'Why the request has a trace whatever the ratio; absent where the ratio gave it one',
    values: ['refused', 'upstream_refused', 'failed', 'fallback', 'downgraded', 'slow'],
  },
  'gateway.rule': { kind: 'string', meaning: 'Rule or policy that decided, by its name' },
  'gateway.rule.mode': { kind: 'string', meaning: 'Whether it is in force', values: ['enforce', 'shadow'] },
  'gateway.decision.kind': {
    kind: 'string',
    meaning:
      'What decided: a routing rule, an access rule, a spend rule, a managed policy, a token group or a stage of the pipeline',
    values: ['route', 'access', 'spend', 'policy', 'token_group', 'stage'],
  },
  'gateway.decision.outcome': {
    kind: 'string',
    meaning: 'What it decided; `matched` for what is in shadow mode and decided nothing',
    values: ['routed', 'refused', 'served', 'matched'],
  },
  'gateway.limit.scope': { kind: 'string', meaning: 'What the limit counts by, such as `team` or `user+model`' },
  'gateway.limit.window': {
    kind: 'string',
    meaning: 'Window of the limit; `open` for requests at once',
    values: ['day', 'week', 'month', 'minute', 'open'],
  },
  'gateway.limit.unit': { kind: 'string', meaning: 'What it counts', values: ['usd', 'requests', 'tokens'] },
  'gateway.limit.limit': { kind: 'double', meaning: 'The limit, in its unit' },
  'gateway.limit.spent': { kind: 'double', meaning: 'What was spent or used of it' },
  'gateway.limit.held': { kind: 'double', meaning: 'What was reserved in it for other requests' },
  'gateway.limit.needed': { kind: 'double', meaning: 'What the request needed' },
  'gateway.limit.resets_at': { kind: 'string', meaning: 'When its window ends (RFC 3339)' },
  'gateway.token.type': {
    kind: 'string',
    meaning: 'As what tokens are priced',
    values: ['uncached_input', 'cache_read', 'cache_write_5m', 'cache_write_1h', 'output'],
  },
} as const satisfies Readonly<Record<string, AttributeSpec>>;
