import assert from 'node:assert/strict';
import { DOLLAR_TOKENS } from '../money/dollar-models.ts';
import type { Asked, TelemetryScene } from './scene.ts';

const HOUR = { type: 'ephemeral', ttl: '1h' };
const KEPT_AN_HOUR = { system: [{ type: 'text', text: 'Be kind.', cache_control: HOUR }] };
const DOLLAR = { model: 'dollar-1', max_tokens: DOLLAR_TOKENS };

/** Asks for everything that telemetry tells apart, and says what was asked by what is remarkable about it. */
export async function askEverything(scene: TelemetryScene): Promise<Readonly<Record<string, Asked>>> {
  const asked: Record<string, Asked> = {};
  const { gateway } = scene;
  const user = await gateway.newToken({ user: 'ann@example.com', team: 'red', project: 'apollo' });
  const contractor = await gateway.newToken({ user: 'cy@example.com', group: 'contractors' });
  const partner = await gateway.newToken({ user: 'pat@partner.example' });
  asked.served = await scene.ask(user, {});
  asked.streamed = await scene.ask(user, { stream: true });
  asked.slow = await scene.ask(user, { model: 'slow-1' });
  asked.unknown = await scene.ask(user, { model: 'nobody-knows-1' });
  asked.failed = await scene.ask(user, { model: 'overloaded-1' });
  asked.odd = await scene.ask(user, { model: 'picky-1' });
  asked.fallback = await scene.ask(user, { model: 'pair-1' });
  asked.downgraded = await scene.ask(user, { model: 'minutes-1', ...KEPT_AN_HOUR });
  asked.first_dollar = await scene.ask(contractor, DOLLAR);
  asked.second_dollar = await scene.ask(contractor, DOLLAR);
  asked.third_dollar = await scene.ask(contractor, DOLLAR);
  asked.policy = await scene.ask(partner, {});
  const statuses = Object.fromEntries(Object.entries(asked).map(([name, { response }]) => [name, response.status]));
  assert.deepEqual(statuses, {
    served: 200,
    streamed: 200,
    slow: 200,
    unknown: 404,
    failed: 529,
    odd: 400,
    fallback: 200,
    downgraded: 200,
    first_dollar: 200,
    second_dollar: 200,
    third_dollar: 429,
    policy: 404,
  });
  return asked;
}
