import type { Served } from '../../contract/services.ts';
import type { ResponseEvent } from '../../contract/stage.ts';
import { outlineOf } from '../../kit/json/outline.ts';

/** What an upstream reports, by the names of the Messages protocol where it has one. */
export type UsageField =
  | 'input_tokens'
  | 'output_tokens'
  | 'cache_read_input_tokens'
  | 'cache_creation_input_tokens'
  | 'ephemeral_5m_input_tokens'
  | 'ephemeral_1h_input_tokens'
  /** Part of `output_tokens`. */
  | 'reasoning_tokens'
  /** Parts of `input_tokens` and `output_tokens`. */
  | 'audio_input_tokens'
  | 'audio_output_tokens';

/**
 * Token counts as the upstream reported them: `input_tokens` is what was neither read from nor written to the cache. A count is
 * absent until a usable number arrives.
 */
export type ReportedUsage = Readonly<Partial<Record<UsageField, number>>>;

/** What one `usage` object reports. */
export interface UsageReport {
  readonly counts: ReportedUsage;
  /** Whether it has a number that can't be one. */
  readonly unusable: boolean;
}

/** What one run of a model used, of the several that an answer took. */
export interface Iteration {
  /** `message`, `compaction`, `advisor_message`, `fallback_message`, or whatever else the upstream calls it. */
  readonly type: string;
  /** As the upstream calls it; absent where it does not say. */
  readonly model?: string;
  readonly reported: ReportedUsage;
}

/** What is remembered of one response: numbers and names of tools, models and tiers, never text. */
export interface UsageReading {
  reported: ReportedUsage;
  /** How the upstream says that it served the request. */
  served: Served | undefined;
  /** The model that it says has answered. */
  model: string | undefined;
  /** What each run of a model used, where the upstream tells them apart. */
  iterations: readonly Iteration[] | undefined;
  /** Uses of tools that the upstream ran, by name, as it reported them; `undefined` until it does. */
  server_tools: Record<string, number> | undefined;
  /** Uses of such tools that were seen to begin, by name. */
  tools_begun: Record<string, number> | undefined;
  /** Whether any usage was reported. */
  seen: boolean;
  /** Whether the upstream said that its output was complete. */
  complete: boolean;
  /** Whether output was counted after it began; until then a count may only be how it began. */
  counted: boolean;
  /** Whether the upstream reported an error inside a successful response. */
  failed: boolean;
  /** Whether a number was reported that can't be one. */
  unusable: boolean;
  /** Whether the response is a stream of events. */
  streamed: boolean;
  deltas: number;
  delta_chars: number;
  /** Characters of all events, or of the document. */
  chars: number;
}

/** Takes in one event, or one document, that the upstream sent. Malformed ones tell nothing. */
export type UsageReader = (reading: UsageReading, event: ResponseEvent) => void;

/** Lets a reader see the outline of an event that is too large to be read. */
export function ofOutline(read: UsageReader): UsageReader {
  return (reading, event) => {
    const { name, large } = event;
    read(reading, large === undefined ? event : { name, data: large.outline });
  };
}

/** No response can use this many tokens; a larger number is a fault, and priced it would leave the exact integers. */
export const TOKENS_MAX = 100_000_000;

/** No response can use a tool this often; a larger number is a fault. */
export const TOOL_USES_MAX = 10_000;

/** The most kinds of tools that are remembered of a response. */
const TOOLS_MAX = 32;

/** Characters of JSON text that one output token is taken for when the upstream's count never came. */
const CHARS_PER_TOKEN = 4;

/** A text up to this length is parsed in a moment, whatever it is. */
const SMALL_CHARS_MAX = 65_536;

/** What is known of a response before its first byte. */
export function newUsageReading(): UsageReading {
  return {
    reported: {},
    served: undefined,
    model: undefined,
    iterations: undefined,
    server_tools: undefined,
    tools_begun: undefined,
    seen: false,
    complete: false,
    counted: false,
    failed: false,
    unusable: false,
    streamed: false,
    deltas: 0,
    delta_chars: 0,
    chars: 0,
  };
}

/** Output tokens that were relayed, judged by size: every delta is at least one token. */
export function relayedOutput(reading: UsageReading, relayed_bytes: number): number {
  if (!reading.streamed) return Math.ceil(relayed_bytes / CHARS_PER_TOKEN);
  return Math.max(reading.deltas, Math.ceil(reading.delta_chars / CHARS_PER_TOKEN));
}

/** Notes the use of a tool that the upstream runs. */
export function countTool(reading: UsageReading, tool: string): void {
  reading.tools_begun ??= Object.create(null) as Record<string, number>;
  if (!hasRoomFor(reading.tools_begun, tool)) return;
  reading.tools_begun[tool] = Math.min(TOOL_USES_MAX, (reading.tools_begun[tool] ?? 0) + 1);
}

/** Whether one more kind of tool can be remembered. */
export function hasRoomFor(tools: Record<string, number>, tool: string): boolean {
  return tool in tools || Object.keys(tools).length < TOOLS_MAX;
}

/** Whether a reported number can be a count. */
export function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}

/** Finds the highest usable count among several names in several objects, and notes numbers that can't be counts. */
export class CountFinder {
  /** Whether a number was found that can't be a count. */
  unusable = false;

  highest(places: readonly Readonly<Record<string, unknown>>[], names: readonly string[]): number | undefined {
    let count: number | undefined;
    for (const place of places) {
      for (const name of names) {
        const found = place[name];
        if (isCount(found, TOKENS_MAX)) count = Math.max(count ?? 0, found);
        else if (found !== undefined && found !== null) this.unusable = true;
      }
    }
    return count;
  }
}

/** A report of the counts that were found; `undefined` where there is nothing to report. */
export function reportOf(
  counts: Readonly<Partial<Record<UsageField, number | undefined>>>,
  unusable: boolean,
): UsageReport | undefined {
  const found: Partial<Record<UsageField, number>> = {};
  for (const field in counts) {
    const count = counts[field as UsageField];
    if (count !== undefined) found[field as UsageField] = count;
  }
  return Object.keys(found).length === 0 && !unusable ? undefined : { counts: found, unusable };
}

/** The highest of each count in two reports. */
export function highestOf(before: ReportedUsage, now: ReportedUsage): ReportedUsage {
  const highest: Partial<Record<UsageField, number>> = { ...before };
  for (const field in now) {
    const count = now[field as UsageField]!;
    if (!(highest[field as UsageField]! >= count)) highest[field as UsageField] = count;
  }
  return highest;
}

/** The objects among some values. */
export function objectsOf(values: readonly unknown[]): Record<string, unknown>[] {
  return values.map(asObject).filter((value) => value !== undefined);
}

/** A value as an object whose fields may be anything; `undefined` when it is none. */
export function asObject(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
}

/** The object that a JSON text says, of a long text its outline; `undefined` when it says none. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const shown = text.length > SMALL_CHARS_MAX ? outlineOf(text) : text;
    return shown === undefined ? undefined : asObject(JSON.parse(shown));
  } catch {
    return undefined;
  }
}
