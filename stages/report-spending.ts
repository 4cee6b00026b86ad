import { answerJson, type CounterStatus, defineStage, type LimitDemand, WINDOWS } from '../engine/api.ts';
import { compileLimits, usageReport } from '../engine/domain/budget/index.ts';

/** Facts that are the same for this request as for those whose limits it asks about. */
const KNOWN = ['request.client.address', 'request.region', 'request.received_at'];

const isKnown = (fact: string) => fact.startsWith('principal.') || KNOWN.includes(fact);

/** The caller's own windows, also where nothing limits them: what was spent is told all the same. */
function ownDemands(user: string): LimitDemand[] {
  return WINDOWS.map((window) => ({
    scope: 'user',
    key: user,
    window,
    unit: 'nano_usd',
    limit: null,
    rule: 'none',
  }));
}

/** Counters in money; one that has a limit replaces the demand on it that has none. */
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
  summary: 'Answers with what the caller has spent and with the limits in money it comes under.',
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
          // A limit on a model or upstream is none of the caller's until it asks for one.
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
