/** What is said of the upstreams of one request: those it can go to, and those it went to. */
import { DROP_REASONS } from '../../contract/forwarding.ts';
import type { DryRun, PastRequest } from '../../explain/dry-run.ts';
import type { UpstreamStep } from '../../explain/upstreams.ts';
import { describeAttempt, describeDropped } from '../../explain/words.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';

const DETAIL = ' '.repeat(7);
const numbered = (number: number | string) => `${String(number).padStart(3)}  `;

/** Share of the sessions, where several of one order can serve and nobody knows the session. */
function shareOf({ order, weight, turn }: UpstreamStep, { upstreams, past }: DryRun): string {
  const sharing = upstreams.filter((step) => step.turn !== undefined && step.order === order);
  if (past === undefined || turn === undefined || sharing.length === 1) return '';
  const sum = sharing.reduce((all, step) => all + step.weight, 0);
  return ` (${sum === 0 ? 0 : Math.round((weight / sum) * 1000) / 10} % of the sessions)`;
}

/** Where a request can go, in the order to be tried; then what is not asked, and why. */
export function upstreamLines(run: DryRun, line_width: number): string[] {
  return run.upstreams.flatMap((step) => {
    const { upstream, turn, dropped, translated_into, cache_downgraded } = step;
    const changes = [
      ...(translated_into === undefined ? [] : [`translated into ${translated_into}`]),
      ...(cache_downgraded ? ['with a prompt cache of five minutes'] : []),
    ];
    const why = dropped === undefined ? '' : `: ${DROP_REASONS[dropped]} (${dropped})`;
    const text = `${[`${upstream}${shareOf(step, run)}`, ...changes].join(', ')}${why}`;
    return wrapText(text, line_width, numbered(turn ?? '-'), DETAIL);
  });
}

/** What became of a request: every attempt with its outcome and what followed, and what was not asked. */
export function attemptLines({ attempts, dropped }: PastRequest, line_width: number): string[] {
  return [
    ...attempts.flatMap((attempt) => wrapText(describeAttempt(attempt), line_width, numbered(attempt.n), DETAIL)),
    ...dropped.flatMap((text) => wrapText(describeDropped(text), line_width, numbered('-'), DETAIL)),
  ];
}
