import { answerJson, type CounterStatus, defineStage, type LimitDemand, SPEND_WINDOWS } from '../engine/api.ts';
import { compileLimits, usageReport } from '../engine/domain/budget/index.ts';

/** Facts that this request shares with the model requests whose limits it reports. */
const KNOWN = ['request.client.address', 'request.region', 'request.received_at'];

const isKnown = (fact: string) => fact.startsWith('principal.') || KNOWN.includes(fact);

/** The caller's own counters, also without limits: the report includes what was spent. */
function ownDemands(user: string): LimitDemand[] {
  return SPEND_WINDOWS.map((window) => ({
    scope: 'user',
    key: user,
    window,
    unit: 'nano_usd',
    limit: null,
    rule: 'none',
  }));
}

/** Removes repeated counters; a counter with a limit wins over one without. */
function withoutRepeats(statuses: readonly CounterStatus[]): CounterStatus[] {
  const name = ({ scope, key, window }: CounterStatus) => JSON.stringify([scope, key, window]);
  const limited = new Set(statuses.flatMap((each) => (each.limit === null ? [] : [name(each)])));
  const seen = new Set<string>();
  return statuses.filter((each) => {
    if (each.limit !== null) return true;
    const repeated = limited.has(name(each)) || seen.has(name(each));
    seen.add(name(each));
    return !repeated;
  });
}

export default defineStage({
  name: 'report-spending',
  version: 1,
  summary: 'Responds with the spending of the caller, and the spend limits that apply.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'No options', yaml: '- stage: report-spending' }],
  reads: ['principal.email', 'principal.groups', 'principal.token.id'],
  readsIfSet: ['principal.team', 'principal.project'],
  raises: ['store_unavailable'],
  needs: ['respond', 'database'],
  terminal: true,
  create(_options, services) {
    const limits = compileLimits(services.config, services.condition, { knows: isKnown });
    return {
      async request(ctx) {
        const user = ctx.get('principal.email');
        const keys = {
          user,
          team: ctx.get('principal.team'),
          project: ctx.get('principal.project'),
          token: ctx.get('principal.token.id'),
          // Limits on models and upstreams apply only to requests that name them.
          model: undefined,
          upstream: undefined,
        };
        const { demands } = limits.demandsOf(keys, ctx.get('principal.groups'), () => services.facts(ctx));
        const in_money = demands.filter(({ unit, shadow }) => unit === 'nano_usd' && shadow !== true);
        const statuses = await services.ledger.statuses([...in_money, ...ownDemands(user)]);
        return answerJson(200, usageReport(withoutRepeats(statuses)), { 'cache-control': 'private, no-cache' });
      },
    };
  },
});
