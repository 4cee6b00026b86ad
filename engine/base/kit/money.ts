/** Money as integers: nano-USD for amounts, pico-USD per token for prices. Decimals only in input and output. @module */
const NANO_DIGITS = 9;
const PRICE_DIGITS = 6;
const FEE_DIGITS = 9;
const NANO_PER_USD = 10n ** BigInt(NANO_DIGITS);
const PICO_PER_NANO = 1000;

/** Exact nano-USD of an amount in USD. Throws a RangeError for an invalid amount. */
export function usdToNano(usd: number): number {
  return scaleDecimal(usd, NANO_DIGITS, 'an amount in USD');
}

/** Exact pico-USD per token of a price in USD per million tokens. Throws a RangeError for an invalid price. */
export function priceToPico(usd_per_million_tokens: number): number {
  return scaleDecimal(usd_per_million_tokens, PRICE_DIGITS, 'a price in USD per million tokens');
}

/** Exact pico-USD per use of a fee in USD per 1,000 uses. Throws a RangeError for an invalid fee. */
export function feeToPico(usd_per_thousand_uses: number): number {
  return scaleDecimal(usd_per_thousand_uses, FEE_DIGITS, 'a fee in USD per 1,000 uses');
}

/** A price in pico-USD times decimal multipliers, rounded up once. RangeError: invalid, or beyond 2^53. */
export function multiplyPrice(pico: number, multipliers: readonly number[]): number {
  let product = BigInt(pico);
  let divisor = 1n;
  for (const multiplier of multipliers) {
    const { digits, decimals } = readDecimal(multiplier, 'a multiplier of prices');
    product *= digits;
    divisor *= 10n ** BigInt(decimals);
  }
  const whole = (product + divisor - 1n) / divisor;
  if (whole > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new RangeError(`a price of ${pico} pico-USD cannot be multiplied by ${multipliers.join(' and ')}: too large`);
  }
  return Number(whole);
}

/** An amount in nano-USD as a decimal in USD, without trailing zeros: `12.5`, `0.000000001`. */
export function formatUsd(nano_usd: number | bigint): string {
  const nano = BigInt(nano_usd);
  const positive = nano < 0n ? -nano : nano;
  const fraction = (positive % NANO_PER_USD).toString().padStart(NANO_DIGITS, '0').replace(/0+$/, '');
  return `${nano < 0n ? '-' : ''}${positive / NANO_PER_USD}${fraction === '' ? '' : `.${fraction}`}`;
}

/** The nearest number in USD of an amount in nano-USD; used in JSON output. */
export function nanoToUsd(nano_usd: number | bigint): number {
  // A division rounds once to the nearest number, like parsing the decimal.
  if (Number.isSafeInteger(nano_usd)) return (nano_usd as number) / 1e9;
  return Number(formatUsd(nano_usd));
}

/** Cost in nano-USD of token counts at prices in pico-USD, rounded up once. RangeError: no whole count, or beyond 2^53. */
export function priceTokens(counts: readonly number[], pico_prices: readonly number[]): number {
  let pico = 0;
  for (let i = 0; i < counts.length; i++) {
    const count = counts[i]!;
    if (!(count >= 0 && Number.isSafeInteger(count))) throw new RangeError(`a token count cannot be ${count}`);
    pico += count * pico_prices[i]!;
  }
  // If the sum is exact, every term is, because no term is larger than the sum.
  if (pico <= Number.MAX_SAFE_INTEGER) return Math.ceil(pico / PICO_PER_NANO);
  return priceManyTokens(counts, pico_prices);
}

function priceManyTokens(counts: readonly number[], pico_prices: readonly number[]): number {
  const pico = counts.reduce((sum, count, i) => sum + BigInt(count) * BigInt(pico_prices[i]!), 0n);
  const nano = (pico + BigInt(PICO_PER_NANO - 1)) / BigInt(PICO_PER_NANO);
  if (nano > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError(`a cost of ${formatUsd(nano)} USD is too large`);
  return Number(nano);
}

function scaleDecimal(value: number, digits: number, what: string): number {
  const { digits: whole, decimals } = readDecimal(value, what);
  const shift = digits - decimals;
  if (shift < 0) throw new RangeError(`${what} has at most ${digits} decimals, ${value} has more`);
  const scaled = whole * 10n ** BigInt(shift);
  if (scaled > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError(`${what} cannot be as large as ${value}`);
  return Number(scaled);
}

/** `value` as digits / 10^decimals, from its shortest decimal text: 0.1 is one tenth, not the nearest double. */
function readDecimal(value: number, what: string): { digits: bigint; decimals: number } {
  if (!Number.isFinite(value) || value < 0) throw new RangeError(`${what} cannot be ${value}`);
  const [mantissa = '', exponent = '0'] = String(value).split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const decimals = fraction.length - Number(exponent);
  const digits = BigInt(whole + fraction);
  return decimals < 0 ? { digits: digits * 10n ** BigInt(-decimals), decimals: 0 } : { digits, decimals };
}

/** Whether a fact or column is an amount in nano-USD, by the end of its name. */
export function isNanoUsd(name: string): boolean {
  return name.endsWith('_nano_usd');
}
