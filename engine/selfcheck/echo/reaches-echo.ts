import type { Subject } from '../subject.ts';
import type { Echo } from './echo.ts';

/** Long enough for a text, short enough to cost nothing to speak of where a real model answers. */
const MAX_TOKENS = 16;

/** Whether the gateway forwards the model to the echo upstream, by a short request of each API until one arrives. */
export async function reachesEcho(subject: Subject, echo: Echo): Promise<boolean> {
  const { model } = subject;
  const expected = echo.expect();
  const messages = [{ role: 'user', content: expected.text }];
  const tries = [
    { path: '/v1/messages', json: { model, max_tokens: MAX_TOKENS, messages } },
    { path: '/v1/chat/completions', json: { model, max_tokens: MAX_TOKENS, messages } },
    { path: '/v1/responses', json: { model, max_output_tokens: MAX_TOKENS, input: expected.text } },
  ];
  for (const request of tries) {
    // A gateway that does not answer is told of by the checks.
    await subject.ask(request).catch(() => {});
    if (expected.received() !== undefined) return true;
  }
  return false;
}
