import type { Exchange, Script, ScriptedUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';

/** Requests that an upstream has and does not answer yet. */
export interface KeptRequests {
  /** Answers so many of them, the oldest first, as soon as that many are there. */
  letGo(count: number): Promise<void>;
  /** Answers all of them, and whatever comes from now on at once. */
  open(): void;
}

/** Lets an upstream keep every request until it is told to answer. */
export function keepRequests(upstream: ScriptedUpstream, answer: Script): KeptRequests {
  const waiting: Exchange[] = [];
  const answerFirst = (count: number) => {
    for (const exchange of waiting.splice(0, count)) void answer(exchange);
  };
  upstream.script = (exchange) => void waiting.push(exchange);
  return {
    async letGo(count) {
      await until('the requests are at the upstream', () => waiting.length >= count);
      answerFirst(count);
    },
    open() {
      upstream.script = answer;
      answerFirst(waiting.length);
    },
  };
}
