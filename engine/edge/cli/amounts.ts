import { formatUsd } from '../../base/kit/money.ts';

const NANO_DIGITS = 9;

/** An amount in USD, rounded half away from zero to `decimals`: `-0.50`. */
export function roundedUsd(nano_usd: bigint, decimals: number): string {
  const step = 10n ** BigInt(NANO_DIGITS - decimals);
  const half = nano_usd < 0n ? -step / 2n : step / 2n;
  const [whole, fraction = ''] = formatUsd(((nano_usd + half) / step) * step).split('.');
  return `${whole}.${fraction.padEnd(decimals, '0')}`;
}

/** A count with its noun: `1 request`, `2 requests`. */
export function counted(many: number, one: string, several = `${one}s`): string {
  return `${many} ${many === 1 ? one : several}`;
}
