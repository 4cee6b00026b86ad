import type { Exchange, Script, ScriptedUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';

/** Requests that an upstream has without a response yet. */
export interface KeptRequests {
  /** Responds to so many of them, the oldest first, as soon as that many are there. */
  letGo(count: number): Promise<void>;
  /** Responds to all of them, and to later ones at once. */
  open(): void;
}

/** Lets an upstream keep every request until it may respond. */
export function keepRequests(upstream: ScriptedUpstream, response: Script): KeptRequests {
  const waiting: Exchange[] = [];
  const answerFirst = (count: number) => {
    for (const exchange of waiting.splice(0, count)) void response(exchange);
  };
  upstream.script = (exchange) => void waiting.push(exchange);
  return {
    async letGo(count) {
      await until('the requests are at the upstream', () => waiting.length >= count);
      answerFirst(count);
    },
    open() {
      upstream.script = response;
      answerFirst(waiting.length);
    },
  };
}
