/** Attempts that a request has behind it. */
import type { AttemptRecord } from '../../engine/api.ts';
import type { Facts, FakeContext } from '../../engine/edge/simulate/stage-harness.ts';

const FAILED: AttemptRecord = {
  n: 1,
  upstream: 'main',
  upstream_model: 'coder-1',
  certainty: 'possibly_accepted',
  status: null,
  outcome: 'unanswered',
  reason: 'next_unconfirmed',
  sends: 1,
  ms: 7,
};

/** The first of several attempts; it was sent to main, without a response. */
export function failed(more: Partial<AttemptRecord> = {}): AttemptRecord {
  return { ...FAILED, ...more };
}

/** An attempt with a response of the spare upstream. */
export function served(n: number, more: Partial<AttemptRecord> = {}): AttemptRecord {
  const answered = { certainty: 'answered', status: 200, outcome: 'answered', reason: 'served' } as const;
  return { ...FAILED, ...answered, n, upstream: 'spare', upstream_model: 'coder-1@2026', ...more };
}

/** Runs something as the attempt hook of a stage, with other facts of the route and attempts before it. */
export async function attemptNext(
  ctx: FakeContext,
  hook: (ctx: FakeContext) => unknown,
  { facts, attempts }: { readonly facts: Facts; readonly attempts: readonly AttemptRecord[] },
): Promise<void> {
  ctx.attempted.records = attempts;
  ctx.replaceFacts(facts as never);
  ctx.attempted.is_running = true;
  try {
    await hook(ctx);
  } finally {
    ctx.attempted.is_running = false;
  }
}
