import { errorText } from './answer-lines.ts';
import type { Api } from './apis.ts';
import { type Asked, askFor, foreignOutcome } from './asked.ts';
import type { SelfCheckOutcome } from './check.ts';
import { type Answer, fieldsOf } from './read-answer.ts';
import type { Ask, Subject } from './subject.ts';

/** A prompt with a short answer; some thirty tokens with what surrounds it. */
export const PROMPT = 'Reply with the single word OK.';

/** What one such request uses, at most. */
export const SHORT_REQUEST = { input: 60, output: 16 } as const;

/**
 * The outcome where a part of the API is not served: it need not be. `undefined` where it is, as far as the answer tells; a web page
 * may come from a proxy that does not pass the path on.
 */
export function unservedOutcome(
  asked: Asked,
  { what, clients }: Pick<Api, 'what' | 'clients'>,
): SelfCheckOutcome | undefined {
  const { answer, travelled } = asked;
  if (![404, 405, 501].includes(answer.status)) return undefined;
  const foreign = foreignOutcome(asked);
  if (foreign === undefined || /^text\/plain\b/.test(answer.headers['content-type'] ?? '')) {
    const error = errorText(answer.json);
    const says = error === undefined ? '' : `: ${error}`;
    if (isAboutModel(answer)) {
      return {
        verdict: 'skipped',
        found: `this model is not served in ${what}: status ${answer.status}${says}`,
        remedy: `where ${clients} are to use it: name one that is with --model`,
        ...travelled,
      };
    }
    return {
      verdict: 'skipped',
      found: `${what} are not served for this: status ${answer.status}${says}; ${clients} can't use it here`,
      ...travelled,
    };
  }
  return {
    verdict: 'warning',
    found: `whether the gateway serves ${what} can't be told: ${foreign.found}`,
    remedy: `where ${clients} are to use it: ${foreign.remedy ?? 'have the proxy pass all of /v1/ on'}`,
    ...travelled,
  };
}

/** Whether it is the model that a gateway does not have, and not the API. */
function isAboutModel({ json }: Answer): boolean {
  const { error } = fieldsOf(json);
  const { code, message } = fieldsOf(error);
  return code === 'model_not_found' || (typeof message === 'string' && /\bmodel\b/i.test(message));
}

/** Asks with a wrong request, which has to be refused as an error of chat completions and Responses. */
export async function refusesInCompatForm(subject: Subject, ask: Ask, api: Api): Promise<SelfCheckOutcome> {
  const asked = await askFor(subject, ask, 'with a field of the wrong kind');
  const { answer, travelled } = asked;
  const instead = unservedOutcome(asked, api) ?? foreignOutcome(asked);
  if (instead !== undefined) return instead;
  if (answer.status < 400) {
    return {
      verdict: 'warning',
      found: `a request that is wrong was answered with status ${answer.status}`,
      remedy: 'have the gateway, or its upstream, refuse requests that are wrong, with status 400',
      ...travelled,
    };
  }
  const faults = [...errorFaults(answer.json), ...(answer.status < 500 ? [] : [`the status is ${answer.status}`])];
  if (faults.length === 0) {
    return { verdict: 'ok', found: `refused with status ${answer.status} in the form of the API`, ...travelled };
  }
  return {
    verdict: 'failed',
    found: `the error is not one of this API: ${faults.join(', ')}`,
    remedy:
      'have errors told as {"error": {"message", "type", "code"}} with a status from 400 to 499 where the request is wrong',
    ...travelled,
  };
}

/** What an error of chat completions and Responses lacks. */
export function errorFaults(json: unknown): string[] {
  const { error } = fieldsOf(json);
  const { message, type } = fieldsOf(error);
  if (typeof error !== 'object' || error === null) return ['there is no object "error"'];
  return [
    ...(typeof message === 'string' && message !== '' ? [] : ['error.message is missing']),
    ...(typeof type === 'string' && type !== '' ? [] : ['error.type is missing']),
  ];
}

/** What is wrong with the two counts of a usage, by their names. */
export function usageFaults(usage: unknown, names: readonly [input: string, output: string]): string[] {
  const isCount = (count: unknown) => typeof count === 'number' && count >= 0;
  const missing = names.filter((name) => !isCount(fieldsOf(usage)[name])).map((name) => `usage.${name}`);
  return missing.length === 0 ? [] : [`no number in ${missing.join(' and ')}`];
}

/** The two counts of a usage, for people. */
export function tellUsage(usage: unknown, [input, output]: readonly [input: string, output: string]): string {
  const counts = fieldsOf(usage);
  return `${Number(counts[input])} tokens in and ${Number(counts[output])} out`;
}

/** The outcome of a check that looked for faults: some break clients, some are only noticed by strict ones. */
export function outcomeOfFaults(
  { travelled }: Pick<Asked, 'travelled'>,
  given: {
    readonly good: string;
    readonly faults: readonly string[];
    readonly lesser?: readonly string[];
    readonly remedy: string;
    readonly details?: readonly string[];
  },
): SelfCheckOutcome {
  const { good, faults, lesser = [], remedy, details = [] } = given;
  const more = details.length === 0 ? {} : { details };
  if (faults.length > 0)
    return { verdict: 'failed', found: [...faults, ...lesser].join('; '), remedy, ...travelled, ...more };
  if (lesser.length > 0) return { verdict: 'warning', found: lesser.join('; '), remedy, ...travelled, ...more };
  return { verdict: 'ok', found: good, ...travelled, ...more };
}
