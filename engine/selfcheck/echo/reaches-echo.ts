import { firstForwarded } from '../forwarding/forward.ts';
import type { Subject } from '../subject.ts';
import type { Echo } from './echo.ts';

/**
 * Whether the gateway forwards the model to the echo upstream, by the one request that the checks of forwarding also begin with.
 * A gateway that does not answer is told of by the checks.
 */
export async function reachesEcho(subject: Subject, echo: Echo): Promise<boolean> {
  const first = await firstForwarded(subject, echo).catch(() => undefined);
  return first?.received !== undefined;
}
