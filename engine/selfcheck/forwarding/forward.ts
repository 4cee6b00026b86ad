import { PROTOCOLS, type Protocol } from '../../contract/protocol.ts';
import { APIS, CLIENTS_TAKE } from '../apis.ts';
import { type Asked, askFor, foreignOutcome } from '../asked.ts';
import type { SelfCheckOutcome } from '../check.ts';
import type { Echo, EchoAnswer, EchoedRequest } from '../echo/echo.ts';
import type { Subject } from '../subject.ts';
import { NO_MODEL } from '../without-model.ts';

const HOW =
  'needs --echo with an address such as 127.0.0.1:4010, an upstream of the gateway that points there, and with --model a model that goes to it';

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
  /** In place of the time that requests have as a rule. */
  readonly seconds?: number;
}

/** A request with what the upstream got of it. */
export interface Forwarded extends Asked {
  /** The first that arrived; `undefined` where none did. */
  readonly received: EchoedRequest | undefined;
  /** How many arrived. */
  readonly count: number;
}

function shortRequest({ model }: Subject, path: string, text: string): object {
  if (path === APIS.responses.path) return { model, max_output_tokens: 16, input: text };
  return { model, max_tokens: 16, messages: [{ role: 'user', content: text }] };
}

/** Sends a request for the echo upstream. Rejects where the gateway does not answer. */
export async function forward(subject: Subject, echo: Echo, probe: Probe): Promise<Forwarded> {
  const { path = APIS.messages.path, fields = {}, note, seconds } = probe;
  const headers = { ...CLIENTS_TAKE, ...probe.headers };
  const expected = echo.expect(probe.answer);
  const { text } = expected;
  const body = probe.body?.(text) ?? JSON.stringify({ ...shortRequest(subject, path, text), ...fields });
  const asked = await askFor(
    subject,
    { method: 'POST', path, body, headers, ...(seconds !== undefined && { seconds }) },
    note,
  );
  return { ...asked, received: expected.received(), count: expected.count() };
}

/** The first request to the echo upstream. */
export interface First extends Forwarded {
  /** What the gateway serves for the model; of several protocols the first one of `PROTOCOLS`. */
  readonly served: Protocol;
}

const firsts = new WeakMap<Subject, Promise<First>>();

/** Makes the first request once, in one protocol after the other until one is answered. Rejects where the gateway does not answer. */
export function firstForwarded(subject: Subject, echo: Echo): Promise<First> {
  const known = firsts.get(subject);
  if (known !== undefined) return known;
  const first = sendFirst(subject, echo);
  firsts.set(subject, first);
  // What had no answer is tried anew by the next check.
  first.catch(() => firsts.delete(subject));
  return first;
}

async function sendFirst(subject: Subject, echo: Echo): Promise<First> {
  let first: First | undefined;
  for (const served of PROTOCOLS) {
    const forwarded = { ...(await forward(subject, echo, { path: APIS[served].path })), served };
    first ??= forwarded;
    if (forwarded.received !== undefined) return forwarded;
    // Another upstream answered, which may cost something: it would do so again.
    if (forwarded.answer.status < 300) break;
  }
  return first!;
}

/** The path at which the gateway takes requests for the model. */
export async function servedPath(subject: Subject, echo: Echo): Promise<string> {
  return APIS[(await firstForwarded(subject, echo)).served].path;
}

type Run = (subject: Subject, echo: Echo) => Promise<SelfCheckOutcome>;

/** Makes a check of what reaches the upstream, which is skipped where nothing does. */
export function atEcho(run: Run): (subject: Subject) => Promise<SelfCheckOutcome> {
  return async (subject) => {
    const { echo } = subject;
    if (echo === undefined) return { verdict: 'skipped', found: HOW };
    const { received } = await firstForwarded(subject, echo);
    if (received === undefined)
      return { verdict: 'skipped', found: 'no request reaches the echo upstream: see the check forwarding.reached' };
    return run(subject, echo);
  };
}

/** Like `atEcho`, and skipped where what arrives can't be compared with what was sent, as the gateway translates it. */
export function atMessagesEcho(run: Run): (subject: Subject) => Promise<SelfCheckOutcome> {
  return atEcho(async (subject, echo) => {
    const { received, served } = await firstForwarded(subject, echo);
    if (served !== 'messages') return { verdict: 'skipped', found: 'the gateway does not serve Messages' };
    return received?.protocol === 'messages' ? run(subject, echo) : translated(received!.protocol);
  });
}

/** The outcome where a gateway asks its upstream in another protocol than it is asked in. */
export function translated(protocol: Protocol): SelfCheckOutcome {
  const found = `the gateway asks the upstream in ${APIS[protocol].what}: what arrives can't be compared with what was sent`;
  return { verdict: 'skipped', found };
}

/** The outcome where this request did not arrive, although others do; `undefined` where it did. */
export function notForwarded(forwarded: Forwarded): SelfCheckOutcome | undefined {
  const { received, answer, travelled } = forwarded;
  if (received !== undefined) return undefined;
  const foreign = foreignOutcome(forwarded);
  if (foreign !== undefined)
    return { ...foreign, found: `the request did not reach the upstream; what came back is ${foreign.found}` };
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
