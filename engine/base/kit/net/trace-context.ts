import { randomBytes } from 'node:crypto';

/** A parsed `traceparent` header (W3C Trace Context, level 2), in lower-case hexadecimal digits. */
interface TraceParent {
  readonly trace_id: string;
  readonly span_id: string;
  readonly sampled: boolean;
}

const TRACE_PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NO_ID = /^0+$/;
const SAMPLED = 1;

/** Parses a `traceparent` header; `undefined` if absent or invalid (treated alike, section 3.2). */
export function parseTraceParent(header: string | readonly string[] | undefined): TraceParent | undefined {
  if (typeof header !== 'string') return undefined;
  const match = TRACE_PARENT.exec(header.trim());
  if (match === null) return undefined;
  const [, version = '', trace_id = '', span_id = '', flags = '', rest] = match;
  // Later versions may have more fields, version 0 may not, and version 255 is invalid.
  if (version === 'ff' || (version === '00' && rest !== undefined)) return undefined;
  if (NO_ID.test(trace_id) || NO_ID.test(span_id)) return undefined;
  return { trace_id, span_id, sampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
}

const STATE_CHARS_MAX = 512;
const STATE_MEMBERS_MAX = 32;
const STATE_KEY = /^(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})$/;
const STATE_VALUE = /^[\x21-\x2b\x2d-\x3c\x3e-\x7e\x20]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/**
 * Whether a `tracestate` header is valid (W3C Trace Context, section 3.3) and within the size that receivers must propagate. Only
 * valid headers are forwarded, because any client can send one.
 */
export function isTraceState(header: string): boolean {
  if (header.length > STATE_CHARS_MAX) return false;
  const members = header.split(',').map((member) => member.trim());
  const keys = new Set<string>();
  let count = 0;
  for (const member of members) {
    if (member === '') continue;
    const split = member.indexOf('=');
    const key = member.slice(0, split);
    if (split < 0 || !STATE_KEY.test(key) || !STATE_VALUE.test(member.slice(split + 1)) || keys.has(key)) return false;
    keys.add(key);
    if (++count > STATE_MEMBERS_MAX) return false;
  }
  return count > 0;
}

/** Writes a `traceparent` header of version 0. */
export function formatTraceParent({ trace_id, span_id, sampled }: TraceParent): string {
  return `00-${trace_id}-${span_id}-${sampled ? '01' : '00'}`;
}

const POOL_BYTES = 4096;
let pool = Buffer.alloc(0);
let used = 0;

/** Random hexadecimal digits from a pool: one call for many random bytes costs as much as for a few. */
function randomHex(bytes: number): string {
  if (used + bytes > pool.length) {
    pool = randomBytes(POOL_BYTES);
    used = 0;
  }
  used += bytes;
  return pool.toString('hex', used - bytes, used);
}

export function newTraceId(): string {
  const id = randomHex(16);
  return NO_ID.test(id) ? newTraceId() : id;
}

export function newSpanId(): string {
  const id = randomHex(8);
  return NO_ID.test(id) ? newSpanId() : id;
}

/** Trace context of an own span: in the caller's trace, or in a new one. */
export interface OwnTrace {
  readonly trace_id: string;
  readonly span_id: string;
  readonly parent_span_id: string | undefined;
}

/** Starts a span in the trace of a `traceparent` header, or in a new trace if the header is absent or invalid. */
export function beginTrace(header?: string | readonly string[]): OwnTrace {
  const parent = parseTraceParent(header);
  return { trace_id: parent?.trace_id ?? newTraceId(), span_id: newSpanId(), parent_span_id: parent?.span_id };
}

const RATIO_RANGE = 0xffff_ffff;

/** Ratio sampling by trace id, as the TraceIdRatioBased of OpenTelemetry's SDK. @param ratio from 0 to 1 */
export function isInRatio(trace_id: string, ratio: number): boolean {
  if (ratio >= 1) return true;
  let mixed = 0;
  for (let at = 0; at < trace_id.length; at += 8) mixed ^= Number.parseInt(trace_id.slice(at, at + 8), 16);
  return mixed >>> 0 < Math.floor(ratio * RATIO_RANGE);
}
