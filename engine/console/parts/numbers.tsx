const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const CENTS = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const TINY = new Intl.NumberFormat('en', { maximumSignificantDigits: 2, maximumFractionDigits: 9 });
const PERCENT = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 });

/** An amount in USD, rounded to what matters; the exact one is its title. Takes a decimal, as text or number. */
export function Usd({ amount }: { amount: string | number }) {
  return (
    <span className="number" title={`${amount} USD`}>
      {shortUsd(amount)}
    </span>
  );
}

/** An amount in USD as text: two places, or the first digits that are not nothing of a smaller one. */
export function shortUsd(amount: string | number): string {
  const value = Number(amount);
  const small = value !== 0 && Math.abs(value) < 0.01;
  const digits = small ? TINY.format(value) : CENTS.format(value);
  return value < 0 ? `-$${digits.slice(1)}` : `$${digits}`;
}

/** A number with what is counted: `1 token`, `3 tokens`, `1,200 requests`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${WHOLE.format(count)} ${count === 1 ? one : many}`;
}

/** A whole number with its thousands apart. */
export function Count({ of }: { of: number }) {
  return <span className="number">{WHOLE.format(of)}</span>;
}

/** A large number in short; the whole one is its title. */
export function ShortCount({ of }: { of: number }) {
  return (
    <span className="number" title={WHOLE.format(of)}>
      {SHORT.format(of)}
    </span>
  );
}

/** A share between 0 and 1. */
export function Share({ of }: { of: number }) {
  return <span className="number">{PERCENT.format(of)}</span>;
}
