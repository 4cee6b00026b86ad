import { refusedRequests } from '../../audit/refused-requests.ts';
import { ERRORS } from '../../contract/errors.ts';
import { listRefusals } from '../../identity/provider/refused-sign-ins.ts';
import { startOfDay } from '../../money/limits/find-limits.ts';
import { readUsage, summarizeUsage } from '../../money/reports/usage-summary.ts';
import type { AdminOptions, Asked } from '../asked.ts';
import { configOperations } from '../config/operations.ts';
import { limitOperations } from '../limits.ts';
import { upstreamOperations } from '../upstreams.ts';
import { ofStore, showSums } from '../usage.ts';
import { lookAt } from './look-at.ts';

const DAY_MS = 86_400_000;
const MOST_ERRORS = 5;

/** What administrators want to know first: put together from the other operations, so that each number is what they tell. */
export function homeOperations(options: AdminOptions) {
  const { config, database, clock } = options;
  const time_zone = config.spend_limits?.time_zone ?? 'UTC';
  const upstreamsOf = upstreamOperations(options);
  const limitsOf = limitOperations(options);
  const configOf = configOperations(options);
  const costOf = async (since: Date, until?: Date) => {
    const rows = await ofStore(readUsage(database, { filter: { since, until }, by: [], time_zone }));
    return summarizeUsage(rows, { by: [], limit: 1 }).total;
  };
  return {
    async getHome(asked: Asked, _nothing: object) {
      const now = new Date(clock.now());
      const since = await startOfDay(options);
      const before = { since: new Date(since.getTime() - DAY_MS), until: new Date(now.getTime() - DAY_MS) };
      const [{ upstreams }, { limits }, configuration, refused, sign_ins] = await Promise.all([
        upstreamsOf.listUpstreams(asked, {}),
        limitsOf.listLimits(asked, {}),
        configOf.getConfig(asked, {}),
        refusedRequests(database, since),
        listRefusals(database),
      ]);
      const [today, yesterday] = await Promise.all([costOf(since), costOf(before.since, before.until)]);
      const refused_sign_ins = sign_ins.filter(({ at }) => at.getTime() > now.getTime() - DAY_MS);
      const { requests } = today;
      const known = { configuration, upstreams, limits, requests, refused, refused_sign_ins, today, yesterday };
      return {
        since,
        until: now,
        time_zone,
        today: showSums(today),
        yesterday: { ...before, total: showSums(yesterday) },
        refused: {
          requests: refused.reduce((sum, each) => sum + each.requests, 0),
          by_error: refused.slice(0, MOST_ERRORS).map((each) => ({ ...each, meaning: meaningOf(each.error) })),
        },
        upstreams: {
          all: upstreams.length,
          closed: upstreams.filter(isClosed).map(({ name }) => name),
          drained: upstreams.filter(({ drained }) => drained !== null).map(({ name }) => name),
        },
        configuration: {
          version: configuration.version,
          loaded_at: latest(configuration.replicas),
          replicas: configuration.replicas.length,
          is_failing: configuration.replicas.some(({ failing_since }) => failing_since !== null),
        },
        look_at: lookAt(known),
      };
    },
  };
}

function meaningOf(code: string): string | null {
  return Object.hasOwn(ERRORS, code) ? ERRORS[code as keyof typeof ERRORS].meaning : null;
}

type Upstream = Awaited<ReturnType<ReturnType<typeof upstreamOperations>['listUpstreams']>>['upstreams'][number];

/** Whether something keeps requests from an upstream, here or at another replica, as a whole or for a model. */
function isClosed({ state, models, elsewhere }: Upstream): boolean {
  return state === 'open' || models.some((model) => model.state === 'open') || elsewhere.length > 0;
}

function latest(replicas: readonly { readonly loaded_at: Date }[]): Date | null {
  const times = replicas.map(({ loaded_at }) => loaded_at.getTime());
  return times.length === 0 ? null : new Date(Math.max(...times));
}
