import type { TokenCounts } from '../stage-services.ts';

/** The most tokens that a request can have used. */
export interface Possible {
  /** What it was found to need before it was forwarded, every run of the model counted. */
  readonly input: number;
  readonly output: number;
  /** What no answer can pass, whatever was asked for: the window of the model for every run. */
  readonly input_limit: number;
}

/** What was reported, or where that is impossible the most that is possible, and which of the two numbers it was. */
export interface Bounded {
  readonly tokens: TokenCounts;
  readonly impossible: readonly ('input' | 'output')[];
}

/** Kinds of input, the dearest first as a rule. */
const INPUT_KINDS = ['cache_write_1h', 'cache_write_5m', 'input', 'cache_read'] as const;

/** Bounds what an upstream reported by what is possible. What can't be believed in one number is not believed at all. */
export function boundUsage(tokens: TokenCounts, { input, output, input_limit }: Possible): Bounded {
  const impossible: ('input' | 'output')[] = [];
  let bounded = tokens;
  if (INPUT_KINDS.reduce((sum, kind) => sum + tokens[kind], 0) > input_limit) {
    impossible.push('input');
    bounded = { ...bounded, ...inputUpTo(tokens, input) };
  }
  if (tokens.output > output) {
    impossible.push('output');
    bounded = { ...bounded, output };
  }
  return { tokens: bounded, impossible };
}

function inputUpTo(tokens: TokenCounts, most: number): Pick<TokenCounts, (typeof INPUT_KINDS)[number]> {
  let left = most;
  const counts = INPUT_KINDS.map((kind) => {
    const count = Math.min(tokens[kind], left);
    left -= count;
    return [kind, count] as const;
  });
  return Object.fromEntries(counts) as Pick<TokenCounts, (typeof INPUT_KINDS)[number]>;
}
