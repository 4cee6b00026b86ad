import { BACKSLASH, CLOSE_BRACE, CLOSE_BRACKET, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE, stringEnd } from './tokens.ts';

/** Successive limits of an outline: levels for all numbers of every protocol, then for the totals only, then small members only. */
const KEPT = [
  { levels: 6, member_bytes: Infinity },
  { levels: 3, member_bytes: Infinity },
  { levels: Infinity, member_bytes: 65_536 },
] as const;
const STRING_BYTES_MAX = 1024;
const OUTLINE_BYTES_MAX = 2 * 1024 * 1024;
const COMMAS_MAX = 50_000;
const STEP_BYTES = 1024 * 1024;

/**
 * A JSON text without long strings and deep values: small for any text, for readers of numbers near the top. Yields every few
 * milliseconds; returns `undefined` if the outline is too large. It assumes valid JSON and does not check the omitted parts.
 */
export function* outline(bytes: Buffer): Generator<undefined, string | undefined> {
  for (const { levels, member_bytes } of KEPT) {
    const kept = yield* keep(bytes, levels, member_bytes);
    if (kept !== undefined) return kept;
  }
  return undefined;
}

/** The outline of a text, computed synchronously. */
export function outlineOf(text: string): string | undefined {
  const steps = outline(Buffer.from(text));
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

function* keep(bytes: Buffer, levels: number, member_bytes: number): Generator<undefined, string | undefined> {
  const parts: string[] = [];
  let size = 0;
  let commas = 0;
  let depth = 0;
  /** Start of the kept part; -1 while omitting. */
  let from = 0;
  /** Start of the current member; a long one is emptied. */
  let member = -1;
  let commas_before = 0;
  let next_step = STEP_BYTES;
  const put = (to: number) => {
    size += to - from;
    if (size <= OUTLINE_BYTES_MAX) parts.push(bytes.toString('utf8', from, to));
    return size <= OUTLINE_BYTES_MAX;
  };
  for (let i = 0; i < bytes.length; i++) {
    if (i > next_step) {
      next_step = i + STEP_BYTES;
      yield;
    }
    const byte = bytes[i]!;
    if (byte === QUOTE) {
      const end = stringEnd(bytes, i);
      if (from >= 0 && end - i > STRING_BYTES_MAX) {
        if (!put(i + 1)) return undefined;
        from = end;
      }
      i = end;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      if (++depth === 2) {
        member = i;
        commas_before = commas;
      }
      if (depth === levels + 1) {
        if (!put(i + 1)) return undefined;
        from = -1;
      }
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      if (depth-- === levels + 1) from = i;
      if (depth === 1 && i - member > member_bytes && member >= from) {
        if (!put(member + 1)) return undefined;
        from = i;
        commas = commas_before;
      }
    } else if (byte === COMMA && from >= 0 && ++commas > COMMAS_MAX && !(depth > 1 && i - member > member_bytes))
      return undefined;
    else if (byte === BACKSLASH) return undefined;
  }
  return from >= 0 && from <= bytes.length && put(bytes.length) ? parts.join('') : undefined;
}
