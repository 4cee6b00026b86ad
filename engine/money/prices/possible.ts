import type { ModelConfig } from '../../contract/config.ts';
import type { TokenCounts } from '../../contract/services.ts';

/** The most tokens that a request can have used. */
export interface Possible {
  /** What it was found to need before it was forwarded, every run of the model counted. */
  readonly input: number;
  readonly output: number;
  /** What no answer can pass, whatever was asked for: the window of the model for every run. */
  readonly input_limit: number;
  /** How often each model can have been run that the request names beside its own. */
  readonly other_runs: number;
}

/** What was reported, or where that is impossible the most that is possible, and which of the two numbers it was. */
export interface Bounded {
  readonly tokens: TokenCounts;
  readonly impossible: readonly ('input' | 'output')[];
}

/** Where nothing was reserved, nobody has looked at what the request can take. */
const UNBOUNDED: Possible = { input: Infinity, output: Infinity, input_limit: Infinity, other_runs: Infinity };

/** Most bytes of UTF-8 for one of the characters that JavaScript counts. */
const UTF8_PER_CHAR = 3;

/**
 * The most tokens that an answer can have used, from what was found before. Where nothing is hidden from the client, that is
 * no more than the bytes it was sent: no tokenizer makes more tokens of a text.
 */
export function possibleFor(
  most: Possible = UNBOUNDED,
  { context_window, supports }: Pick<ModelConfig, 'context_window' | 'supports'>,
  chars: number,
): Possible {
  const is_open = supports.thinking === 'none' && most.input_limit <= context_window && chars > 0;
  return is_open ? { ...most, output: Math.min(most.output, UTF8_PER_CHAR * chars) } : most;
}

const NOTHING: Bounded['impossible'] = Object.freeze([]);

/** Kinds of input, the most expensive first as a rule. */
const INPUT_KINDS = ['cache_write_1h', 'cache_write_5m', 'input', 'cache_read'] as const;

/** Bounds what an upstream reported by what is possible. What can't be believed in one number is not believed at all. */
export function boundUsage(tokens: TokenCounts, { input, output, input_limit }: Omit<Possible, 'other_runs'>): Bounded {
  const all_input = tokens.input + tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h;
  if (all_input <= input_limit && tokens.output <= output) return { tokens, impossible: NOTHING };
  const impossible: ('input' | 'output')[] = [];
  let bounded = tokens;
  if (all_input > input_limit) {
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
