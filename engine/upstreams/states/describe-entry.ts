import type { Drained, UpstreamState } from '../../contract/forwarding.ts';
import type { ModelEntry, UpstreamEntry } from './upstream-entry.ts';

type Told = Pick<UpstreamState, 'state' | 'until' | 'last'>;

/** Times of the breakers in milliseconds since the epoch. */
type Epoch = (time: number) => number;

/** A line for the upstream, and one for each model that is not as it should be. */
export function describeEntry(
  entry: UpstreamEntry,
  drained: Drained | undefined,
  now: number,
  epoch: Epoch,
): UpstreamState[] {
  const { name: upstream, active, models, mode } = entry;
  const shadow = mode === 'shadow' && { shadow: true as const };
  const whole: UpstreamState = {
    upstream,
    ...(drained === undefined ? wholeState(entry, now, epoch) : { state: 'drained' as const }),
    active,
    ...(drained !== undefined && { drained }),
    ...shadow,
  };
  const of_models = [...models.values()].flatMap((model): UpstreamState[] => {
    const told = modelState(model, now, epoch);
    return told === undefined ? [] : [{ upstream, upstream_model: model.upstream_model, ...told, ...shadow }];
  });
  return [whole, ...of_models];
}

function wholeState({ credential, connect }: UpstreamEntry, now: number, epoch: Epoch): Told {
  if (credential.phase(now) !== 'closed') return told('credential', credential.until(now), credential.last, epoch);
  const phase = connect.phase(now);
  return phase === 'closed' ? { state: 'closed' } : told(phase, connect.until(now), connect.last, epoch);
}

function modelState({ breaker, limited, ...model }: ModelEntry, now: number, epoch: Epoch): Told | undefined {
  const phase = breaker.phase(now);
  if (phase !== 'closed') return told(phase, breaker.until(now), breaker.last, epoch);
  const callers = breaker.callersRefused(now);
  if (callers > 0) {
    const whose = callers === 1 ? 'one caller' : `${callers} callers`;
    return told('closed', undefined, `${breaker.last}, for ${whose} alone`, epoch);
  }
  const limited_until = limited.until(now);
  if (limited_until !== undefined) return told('limited', limited_until, limited.last, epoch);
  if (model.missing_until > now) return told('model_missing', model.missing_until, model.missing_last, epoch);
  return undefined;
}

function told(state: Told['state'], until: number | undefined, last: string | undefined, epoch: Epoch): Told {
  return { state, ...(until !== undefined && { until: epoch(until) }), ...(last !== undefined && { last }) };
}
