import type { CheckOutcome } from '../../contract/checks.ts';
import { SIGNALS, type Signal } from '../../contract/client-telemetry.ts';
import { fieldsOf, readAnswer } from '../../selfcheck/answer.ts';
import type { Subject } from '../../selfcheck/check.ts';

/** Whether a gateway takes the telemetry of clients, by sending none. */
export async function examineTelemetry({ ask }: Pick<Subject, 'ask'>): Promise<CheckOutcome> {
  const answers = await Promise.all(
    SIGNALS.map(async (signal) => ({
      signal,
      answer: await readAnswer(await ask({ path: `/v1/${signal}`, json: {} })),
    })),
  );
  const refused = answers
    .filter(({ answer }) => answer.status !== 200 || answer.json === undefined)
    .map(({ signal }) => signal);
  if (refused.length === SIGNALS.length) {
    return {
      verdict: 'skipped',
      found: 'the gateway takes no telemetry of clients; those that are told to send some log an error each time',
    };
  }
  if (refused.length > 0) {
    const found = `the gateway takes no ${names(refused)} of clients, and other telemetry it does`;
    return {
      verdict: 'warning',
      found,
      remedy: `let POST ${refused.map((signal) => `/v1/${signal}`).join(', ')} through to the gateway`,
    };
  }
  const dropped = answers.filter(
    ({ answer }) => fieldsOf(fieldsOf(answer.json).partialSuccess).errorMessage !== undefined,
  );
  const details = dropped.length === 0 ? [] : [`it passes on to nobody: ${names(dropped.map(({ signal }) => signal))}`];
  return { verdict: 'ok', found: `the gateway takes ${names(SIGNALS)} of clients`, details };
}

function names(signals: readonly Signal[]): string {
  return signals.join(', ');
}
