import { foreignOutcome } from '../asked.ts';
import type { SelfCheckOutcome } from '../check.ts';
import type { Subject } from '../subject.ts';
import { firstForwarded } from './forward.ts';

/** Whether a request for the model reaches the echo upstream at all. */
export async function checkReached(subject: Subject): Promise<SelfCheckOutcome> {
  const echo = subject.echo!;
  const forwarded = await firstForwarded(subject, echo);
  const { received, answer, travelled, count } = forwarded;
  const foreign = foreignOutcome(forwarded);
  if (received === undefined) {
    // A login page was no upstream: where it answers, nothing is known of what is behind it.
    if (foreign !== undefined) return { ...foreign, found: `nothing arrived, and what came back is ${foreign.found}` };
    return {
      verdict: 'failed',
      found:
        answer.status === 200
          ? `another upstream answered for ${subject.model}`
          : `nothing arrived, and the gateway answered with status ${answer.status}`,
      remedy: `point an upstream of the gateway at ${echo.url}, send the model ${subject.model} there, and see that the gateway's machine reaches that address (--echo host:port says where to listen)`,
      ...travelled,
    };
  }
  const details = count > 1 ? [`the gateway sent the request ${count} times`] : [];
  if (foreign !== undefined && answer.status === 200) return foreign;
  if (answer.status !== 200) {
    return {
      verdict: 'failed',
      found: `the request arrived and was answered, but the gateway answered with status ${answer.status}`,
      remedy: 'look into the logs of the gateway: why does it not take the answer of its upstream?',
      ...travelled,
      details,
    };
  }
  return { verdict: 'ok', found: `requests for ${subject.model} arrive at ${echo.url}`, ...travelled, details };
}
