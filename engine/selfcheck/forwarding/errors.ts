import { errorText, shortText } from '../answer-lines.ts';
import { foreignOutcome } from '../asked.ts';
import type { SelfCheckOutcome } from '../check.ts';
import { outcomeOfFaults } from '../compat-request.ts';
import type { Echo } from '../echo/echo.ts';
import { fieldsOf } from '../read-answer.ts';
import type { Subject } from '../subject.ts';
import { forward, notForwarded } from './forward.ts';

/** An error as an upstream tells it. */
interface UpstreamError {
  readonly status: number;
  readonly type: string;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Clients compact a conversation when they read this. */
const TOO_LONG: UpstreamError = {
  status: 400,
  type: 'invalid_request_error',
  message: 'prompt is too long: 214315 tokens > 200000 maximum',
};

/** Clients wait as long as it says, and try again. */
const OVERLOADED: UpstreamError = {
  status: 529,
  type: 'overloaded_error',
  message: 'Overloaded: a self-check asked for this',
  headers: { 'retry-after': '2' },
};

const PASS_ON =
  "have the gateway pass its upstream's errors on with status, type and wording: clients decide by them what to do next";

/** Whether an error about the request comes back word for word. */
export function checkRefusal(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  return checkError(subject, echo, TOO_LONG);
}

/** Whether an upstream that is overloaded is told as such, with the time to wait. */
export function checkOverload(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  return checkError(subject, echo, OVERLOADED);
}

async function checkError(subject: Subject, echo: Echo, error: UpstreamError): Promise<SelfCheckOutcome> {
  const { status, type, message, headers = {} } = error;
  const body = JSON.stringify({ type: 'error', error: { type, message }, request_id: 'req_of_a_self_check' });
  const forwarded = await forward(subject, echo, {
    answer: { error: { status, headers, body } },
    note: `which the upstream answers with status ${status}`,
  });
  const instead = notForwarded(forwarded) ?? foreignOutcome(forwarded);
  if (instead !== undefined) return instead;
  const { answer, count } = forwarded;
  const told = fieldsOf(fieldsOf(answer.json).error);
  const { faults, lesser } = wordingFaults(told.message, error, errorText(answer.json));
  const wait = headers['retry-after'];
  const came_wait = answer.headers['retry-after'];
  return outcomeOfFaults(forwarded, {
    good: `status ${status}, ${type} and its message come back as the upstream sent them`,
    faults: [
      ...(answer.status === status ? [] : [`status ${status} became ${answer.status}`]),
      ...(told.type === type ? [] : [`the type ${type} became ${shortText(String(told.type), 40)}`]),
      ...faults,
    ],
    lesser: [
      ...lesser,
      ...(wait === undefined || came_wait === wait
        ? []
        : [
            came_wait === undefined
              ? 'retry-after is missing'
              : `retry-after ${wait} became ${shortText(came_wait, 20)}`,
          ]),
    ],
    remedy: PASS_ON,
    details: count > 1 ? [`the gateway sent the request ${count} times`] : [],
  });
}

function wordingFaults(came: unknown, { message }: UpstreamError, text = ''): { faults: string[]; lesser: string[] } {
  if (came === message) return { faults: [], lesser: [] };
  const holds = (typeof came === 'string' && came.includes(message)) || text.includes(message);
  return holds
    ? { faults: [], lesser: ['something was put around the message of the upstream'] }
    : { faults: ['the message of the upstream was replaced'], lesser: [] };
}
