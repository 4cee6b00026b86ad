import type { GatewayConfig } from '../contract/config.ts';
import { OperationError } from '../contract/operation-error.ts';
import { isTimeZone } from '../kit/net/addresses.ts';
import { parseDate } from '../kit/times.ts';

const A_ZONE = 'the name of a time zone, such as UTC or Europe/Berlin';

/** The time zone in which dates are meant: that of the parameter, else that of spend limits, else UTC. Raises OperationError. */
export function zoneAsked(
  time_zone: string | undefined,
  { spend_limits }: Pick<GatewayConfig, 'spend_limits'>,
): string {
  const zone = time_zone ?? spend_limits?.time_zone ?? 'UTC';
  if (!isTimeZone(zone)) throw new OperationError(`the parameter "time_zone" is wrong: expected ${A_ZONE}`);
  return zone;
}

/** A date or moment of a parameter; a date stays a text, for it depends on a time zone. Raises OperationError. */
export function endAsked(name: string, text: string | undefined): Date | string | undefined {
  if (text === undefined) return undefined;
  const moment = parseDate(text);
  if (moment === undefined || moment.getUTCFullYear() < 1970) {
    const expected = 'a date such as 2027-01-31, or a time such as 2027-01-31T18:00:00Z';
    throw new OperationError(`the parameter "${name}" is wrong: expected ${expected}`);
  }
  return text.includes('T') ? moment : text;
}
