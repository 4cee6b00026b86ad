import { CREDENTIAL_REFUSED, FAILURES } from '../outcomes.ts';
import { createQueries } from '../promql.ts';
import { RECORDED } from '../recording-rules.ts';
import type { AlertRule, RuleGroup } from '../rules.ts';

const q = createQueries('', '5m');
const UPSTREAM = ['job', 'gateway.upstream'] as const;
const attempts = q.rate('gateway.attempts', UPSTREAM);

/** About upstreams and what they do with prompts. */
export const UPSTREAM_ALERTS: RuleGroup<AlertRule> = {
  name: 'appscli-upstreams',
  rules: [
    {
      alert: 'ModelUpstreamFails',
      expression: `${q.rate('gateway.attempts', UPSTREAM, { 'gateway.attempt.outcome': FAILURES })} / ${attempts} > 0.2 and ${attempts} > 0.05`,
      lasting: '10m',
      severity: 'warning',
      summary: '{{ $value | humanizePercentage }} of attempts at {{ $labels.gateway_upstream }} fail',
      description:
        'Requests go to other upstreams where there are any. To take this one out of service: appscli upstreams drain {{ $labels.gateway_upstream }} --reason "...".',
    },
    {
      alert: 'ModelUpstreamRefusesCredential',
      expression: `${q.count('gateway.attempts', '10m', UPSTREAM, { 'gateway.attempt.outcome': CREDENTIAL_REFUSED })} > 0`,
      lasting: '0m',
      severity: 'critical',
      summary: '{{ $labels.gateway_upstream }} refuses the credential of the gateway',
      description:
        'Its key was revoked, has expired, may not do this or has no credit left. Every request goes elsewhere or fails until the variable that the upstream names in gateway.yaml has a new key.',
    },
    {
      alert: 'ModelUpstreamLimits',
      expression: `${q.rate('gateway.attempts', UPSTREAM, { 'gateway.attempt.outcome': 'limited' })} / ${attempts} > 0.1 and ${attempts} > 0.05`,
      lasting: '15m',
      severity: 'warning',
      summary: '{{ $labels.gateway_upstream }} answers {{ $value | humanizePercentage }} of attempts with 429',
      description:
        'The account of the gateway is too small for what is asked. Ask the provider for more, share the requests with another upstream, or limit them by spend_limits.',
    },
    {
      alert: 'ModelPromptCacheDowngraded',
      expression: `${q.count('gateway.cache.downgrades', '1h', UPSTREAM)} > 0`,
      lasting: '0m',
      severity: 'info',
      summary: '{{ $labels.gateway_upstream }} keeps prompts for five minutes where clients asked for an hour',
      description:
        'Conversations with pauses longer than five minutes pay for their input again. Put an upstream that keeps prompts for an hour first, or say on_unsupported_cache: refuse.',
    },
    {
      alert: 'ModelPromptCacheHitsFell',
      expression: `${RECORDED.cache_hits} < 0.5 * (${RECORDED.cache_hits} offset 1d > 0.2)`,
      lasting: '1h',
      severity: 'warning',
      summary:
        'Only {{ $value | humanizePercentage }} of the input of {{ $labels.gateway_model }} is read from a cache',
      description:
        'It is less than half of what it was at this time yesterday, so the same input costs several times as much. Sessions that move between upstreams, a client that changed its prompt, or a prompt that became too short for a cache look like this.',
    },
  ],
};
