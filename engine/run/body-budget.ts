import { StageError } from '../contract/errors.ts';
import { NEXT_ROOM_SECONDS } from '../kit/patience.ts';

const MIB = 1024 * 1024;

/** A size as people read it: whole MiB where it is some, otherwise bytes. */
function describeBytes(bytes: number): string {
  return bytes >= 10 * MIB ? `${Math.round(bytes / MIB)} MiB` : `${bytes} bytes`;
}

/**
 * How many bytes of bodies the process holds, over all requests and by whom, so that neither a crowd nor one caller can
 * fill memory.
 */
export class BodyBudget {
  /** Most bytes held at once; a reload can change it. */
  limit_bytes: number;
  /** Most of them for one caller. Who holds nothing yet may take more: one body is always let in. */
  share_bytes: number;
  #held = 0;
  readonly #by_owner = new Map<string, number>();

  constructor(limit_bytes: number, share_bytes: number) {
    this.limit_bytes = limit_bytes;
    this.share_bytes = share_bytes;
  }

  /** Bytes held now. */
  get held_bytes(): number {
    return this.#held;
  }

  /**
   * Raises rate_limit_exceeded when the caller's share has no room, overloaded when the process has none.
   * @param let_in of what the caller holds, bytes that do not count as something held before
   */
  take(owner: string, bytes: number, let_in = 0): void {
    const own = this.#by_owner.get(owner) ?? 0;
    if (this.#held + bytes > this.limit_bytes) throw full();
    if (own > let_in && own + bytes > this.share_bytes) throw this.#shareFull(own, bytes);
    this.#by_owner.set(owner, own + bytes);
    this.#held += bytes;
  }

  give(owner: string, bytes: number): void {
    if (bytes === 0) return;
    const own = this.#by_owner.get(owner)! - bytes;
    if (own > 0) this.#by_owner.set(owner, own);
    else this.#by_owner.delete(owner);
    this.#held -= bytes;
  }

  #shareFull(held_bytes: number, needed_bytes: number): StageError {
    const limit_bytes = this.share_bytes;
    const message = `Your requests under way hold ${describeBytes(held_bytes)} of the gateway's memory, and those of one caller may hold ${describeBytes(limit_bytes)}; send this one again when some of them are answered.`;
    return new StageError('rate_limit_exceeded', message, {
      headers: { 'retry-after': String(NEXT_ROOM_SECONDS) },
      details: { limit: limit_bytes, unit: 'bytes', reserved: held_bytes, needed: needed_bytes },
    });
  }
}

function full(): StageError {
  return new StageError(
    'overloaded',
    'The gateway holds as many request bytes as it may; send the request again shortly.',
    { headers: { 'retry-after': '1' } },
  );
}

/** What one request holds of a budget. */
export class HeldBytes {
  /** Whose share is used. */
  readonly owner: string;
  readonly #budget: BodyBudget;
  #bytes = 0;
  #released = false;

  constructor(budget: BodyBudget, owner: string) {
    this.#budget = budget;
    this.owner = owner;
  }

  /** Raises rate_limit_exceeded or overloaded, and then holds what it held before. */
  take(bytes: number): void {
    this.#budget.take(this.owner, bytes);
    this.#bytes += bytes;
  }

  /** Like `take`, for one body as it grows: that of a caller who holds nothing else is always let in, compressed or not. */
  takeForBody(bytes: number): void {
    this.#budget.take(this.owner, bytes, this.#bytes);
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    this.#budget.give(this.owner, bytes);
    this.#bytes -= bytes;
  }

  /**
   * Holds this many bytes in all.
   * @returns false, and holds what it held before, when there is no room or everything was given back
   */
  hold(bytes: number): boolean {
    if (this.#released) return false;
    const more = bytes - this.#bytes;
    try {
      if (more > 0) this.take(more);
      else this.give(-more);
      return true;
    } catch {
      return false;
    }
  }

  /** Gives back everything for good. */
  release(): void {
    this.#released = true;
    this.give(this.#bytes);
  }
}
