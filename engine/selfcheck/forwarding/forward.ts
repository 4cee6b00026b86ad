import { type Asked, askFor } from '../asked.ts';
import type { SelfCheckOutcome } from '../check.ts';
import { NO_MODEL } from '../compat-request.ts';
import type { Echo, EchoAnswer, EchoedRequest } from '../echo/echo.ts';
import type { Subject } from '../subject.ts';

/** The path of the Messages API. */
export const MESSAGES_PATH = '/v1/messages';

const HOW =
  'needs --echo with an address such as 127.0.0.1:4010, an upstream of the gateway that points there, and with --model a model that goes to it';

const PROTOCOL_NAMES = { messages: 'Messages', chat: 'chat completions', responses: 'Responses' } as const;

/** Why a check of what reaches the upstream can't be made. */
export function withoutEcho({ echo, model }: Subject): string | undefined {
  if (echo === undefined) return HOW;
  return model === undefined ? NO_MODEL : undefined;
}

/** A request that was to be forwarded. */
export interface Probe {
  readonly path?: string;
  /** Fields of the body besides the model, the bound and the prompt. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** In place of a usual body; is given the text that has to be in it. */
  body?(text: string): string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What the upstream is to answer. */
  readonly answer?: EchoAnswer;
  readonly note?: string;
}

/** A request with what the upstream got of it. */
export interface Forwarded extends Asked {
  /** The first that arrived; `undefined` where none did. */
  readonly received: EchoedRequest | undefined;
  /** How many arrived. */
  readonly count: number;
}

/** Sends a request for the echo upstream. Rejects where the gateway does not answer. */
export async function forward(subject: Subject, echo: Echo, probe: Probe): Promise<Forwarded> {
  const { path = MESSAGES_PATH, fields = {}, headers = {}, note } = probe;
  const expected = echo.expect(probe.answer);
  const messages = [{ role: 'user', content: expected.text }];
  const body =
    probe.body?.(expected.text) ?? JSON.stringify({ model: subject.model, max_tokens: 16, messages, ...fields });
  const asked = await askFor(subject, { method: 'POST', path, body, headers }, note);
  return { ...asked, received: expected.received(), count: expected.count() };
}

const firsts = new WeakMap<Subject, Promise<Forwarded>>();

/** The first request to the echo upstream, which is made once. */
export function firstForwarded(subject: Subject, echo: Echo): Promise<Forwarded> {
  const known = firsts.get(subject);
  if (known !== undefined) return known;
  const first = forward(subject, echo, {});
  firsts.set(subject, first);
  return first;
}

/**
 * Makes a check of what reaches the upstream, which is skipped where nothing does, or nothing that can be compared with what was
 * sent: a gateway may speak another protocol to its upstream.
 */
export function atEcho(
  run: (subject: Subject, echo: Echo) => Promise<SelfCheckOutcome>,
): (subject: Subject) => Promise<SelfCheckOutcome> {
  return async (subject) => {
    const { echo } = subject;
    if (echo === undefined) return { verdict: 'skipped', found: HOW };
    const { received } = await firstForwarded(subject, echo);
    if (received === undefined)
      return { verdict: 'skipped', found: 'no request reaches the echo upstream: see the check forwarding.reached' };
    if (received.protocol !== 'messages') {
      const found = `the gateway asks the upstream in ${PROTOCOL_NAMES[received.protocol]}: what arrives can't be compared with what was sent`;
      return { verdict: 'skipped', found };
    }
    return run(subject, echo);
  };
}

/** The outcome where this request did not arrive, although others do; `undefined` where it did. */
export function notForwarded({ received, answer, travelled }: Forwarded): SelfCheckOutcome | undefined {
  if (received !== undefined) return undefined;
  return {
    verdict: 'failed',
    found: `the request did not reach the upstream; the gateway answered with status ${answer.status}`,
    remedy:
      'have the gateway pass on what it does not know: clients send new fields and headers before gateways know them',
    ...travelled,
  };
}

/** Whether the gateway refused a request by itself, and said so as JSON. */
export function isExplicitRefusal({ received, answer }: Forwarded): boolean {
  return received === undefined && answer.status >= 400 && answer.status < 500 && answer.json !== undefined;
}
