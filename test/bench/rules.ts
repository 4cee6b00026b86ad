/**
 * What routing rules cost: CPU time of `resolve-route` per request with 5 and with 500 rules, of which only the last one
 * matches. `node test/bench/rules.ts` prints a table; times in microseconds.
 * @module
 */

import type { RoutingRuleConfig } from '../../engine/api.ts';
import { type Facts, openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import resolveRoute from '../../stages/resolve-route.ts';
import { routingSection } from '../support/routing.ts';

const REQUESTS = 20_000;
const ROUNDS = 7;

const FACTS: Facts = {
  'request.id': 'req-1',
  'request.method': 'POST',
  'request.path': '/v1/messages',
  'request.protocol': 'messages',
  'request.received_at': Date.parse('2026-03-10T12:00:00Z'),
  'request.client.address': '192.0.2.1',
  'request.body_bytes': 512,
  'request.model': 'coder-1',
  'request.max_tokens': 500,
  'request.stream': true,
  'request.tool_count': 3,
  'request.message_count': 4,
  'request.input_tokens_estimate': 170,
  'request.input_tokens_max': 512,
  'request.cache.ttl': 'none',
  'principal.id': 'user:alice@example.com',
  'principal.email': 'alice@example.com',
  'principal.groups': ['all', 'research', 'staff'],
  'principal.team': 'search',
  'principal.token.id': 'tok_1',
  'principal.token.group': 'all',
};

type Condition = Pick<RoutingRuleConfig, 'group' | 'models' | 'team' | 'when'>;

/** Rules as people write them: by a field, by several, by a condition. */
const KINDS: Readonly<Record<string, (index: number) => Condition>> = {
  'one group': (index) => ({ group: `group-${index}` }),
  'models, group and team': (index) => ({ models: ['coder-*'], group: 'research', team: `team-${index}` }),
  'when: and [===, glob, in]': (index) => ({
    when: {
      and: [
        { '===': [{ var: 'request.stream' }, true] },
        { glob: [{ var: 'request.model' }, 'coder-*'] },
        { in: [`group-${index}`, { var: 'principal.groups' }] },
      ],
    },
  }),
};

/** Least CPU time of one request, in microseconds; the other rounds also measured the machine's other work. */
function measure(kind: (index: number) => Condition, count: number): number {
  const rules = Array.from({ length: count }, (_, index): RoutingRuleConfig => {
    const condition = index === count - 1 ? {} : kind(index);
    return {
      name: `rule-${index}`,
      mode: 'enforce',
      upstreams: [{ upstream: 'spare', order: 1, weight: 1 }],
      ...condition,
    };
  });
  const stage = openStage(resolveRoute, { config: stageConfig({ routing: routingSection(rules) }) });
  const rounds = Array.from({ length: ROUNDS }, () => {
    const requests = Array.from({ length: REQUESTS }, () => stage.request({ facts: FACTS }));
    const start = process.cpuUsage();
    for (const ctx of requests) stage.hooks.request!(ctx);
    const { user, system } = process.cpuUsage(start);
    return (user + system) / REQUESTS;
  });
  return Math.min(...rounds);
}

console.log(`${'rules'.padEnd(28)}${'5'.padStart(8)}${'500'.padStart(8)}${'more'.padStart(8)}`);
for (const [name, kind] of Object.entries(KINDS)) {
  const [few, many] = [measure(kind, 5), measure(kind, 500)];
  const cells = [few, many, many - few].map((us) => us.toFixed(1).padStart(8));
  console.log(`${name.padEnd(28)}${cells.join('')}`);
}
