import type { IncomingHttpHeaders } from 'node:http';
import type { CheckOutcome } from '../../contract/checks.ts';

const NOTICED_SECONDS = 60;
const HARMFUL_SECONDS = 300;

const HOW_TO_SET: Partial<Record<NodeJS.Platform, string>> = {
  linux: 'timedatectl set-ntp true',
  darwin: 'sudo sntp -sS time.apple.com',
  win32: 'w32tm /resync',
};

/**
 * How far the clock of this machine is from that of the gateway, by the `date` of an answer (RFC 9110 section 6.6.1), which
 * has whole seconds. `undefined` where the answer has none, or may come from a cache.
 */
export function judgeClock(
  { date, age }: Pick<IncomingHttpHeaders, 'date' | 'age'>,
  given: { readonly asked_at: number; readonly answered_at: number; readonly platform: NodeJS.Platform },
): CheckOutcome | undefined {
  const theirs = Date.parse(date ?? '');
  if (Number.isNaN(theirs) || age !== undefined) return undefined;
  const { asked_at, answered_at, platform } = given;
  // Somewhere between both the answer was made; within that and the second there is no difference to see.
  const ahead_ms = asked_at - (theirs + 1000) > 0 ? asked_at - theirs - 1000 : Math.min(0, answered_at - theirs);
  const seconds = Math.round(Math.abs(ahead_ms) / 1000);
  if (seconds < NOTICED_SECONDS) return { verdict: 'ok', found: 'the clocks of this machine and of the gateway agree' };
  const how = HOW_TO_SET[platform];
  return {
    verdict: seconds < HARMFUL_SECONDS ? 'warning' : 'failed',
    found: `the clock of this machine is ${tell(seconds)} ${ahead_ms > 0 ? 'ahead of' : 'behind'} that of the gateway, so tokens and certificates seem expired, or not good yet`,
    remedy: `find out which is wrong, and set it from the network${how === undefined ? '' : ` (here: ${how})`}`,
    details: [`here: ${new Date(asked_at).toISOString()}`, `gateway: ${new Date(theirs).toISOString()}`],
  };
}

function tell(seconds: number): string {
  if (seconds < 120) return `${seconds} seconds`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} minutes`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} hours` : `${Math.round(seconds / 86_400)} days`;
}
