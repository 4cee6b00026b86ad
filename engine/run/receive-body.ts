import type { IncomingMessage } from 'node:http';
import { StageError } from '../contract/errors.ts';
import type { Clock, Timer } from '../contract/services.ts';
import { releaseMemory } from '../kit/memory.ts';
import type { HeldBytes } from './body-budget.ts';

/** What a client may take for sending a body. */
export interface BodyLimits {
  readonly max_bytes: number;
  /** From the first look at the body to its last byte. */
  readonly total_seconds: number;
  /** Longest silence of a sending client. */
  readonly silence_seconds: number;
}

/** Room for a body of unknown length begins with this and doubles. */
const FIRST_ROOM_BYTES = 65_536;

function tooLarge(limit: number): StageError {
  return new StageError(
    'body_too_large',
    `The request body is larger than ${limit} bytes, the most this gateway accepts.`,
    {
      details: { limit_bytes: limit },
    },
  );
}

function late(message: string): StageError {
  return new StageError('request_timeout', message, { headers: { connection: 'close' } });
}

/**
 * Collects a request body into one piece of memory, which stays taken from `room`. A declared length is taken before
 * anything is read. Raises body_too_large, request_timeout, bad_http and what `room` raises, and then holds nothing.
 */
export function receiveBody(req: IncomingMessage, limits: BodyLimits, room: HeldBytes, clock: Clock): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const length = Number(req.headers['content-length'] ?? 0);
    if (length > limits.max_bytes) throw tooLarge(limits.max_bytes);
    room.take(length);
    new Receiving(req, { limits, room, clock, length }, { resolve, reject }).start();
  });
}

/** What a body is received with. */
interface Reception {
  readonly limits: BodyLimits;
  readonly room: HeldBytes;
  readonly clock: Clock;
  /** As declared; 0 where it is not. */
  readonly length: number;
}

/** How a reception ends. */
interface Conclusion {
  resolve(bytes: Buffer): void;
  reject(error: Error): void;
}

/** One body on its way in. */
class Receiving {
  readonly #req: IncomingMessage;
  readonly #limits: BodyLimits;
  readonly #room: HeldBytes;
  readonly #clock: Clock;
  readonly #conclusion: Conclusion;
  readonly #deadline: number;
  readonly #timer: Timer;
  /** Bytes taken from `room`. */
  #taken: number;
  #memory: Buffer | undefined;
  #size = 0;

  constructor(req: IncomingMessage, { limits, room, clock, length }: Reception, conclusion: Conclusion) {
    this.#req = req;
    this.#limits = limits;
    this.#room = room;
    this.#clock = clock;
    this.#conclusion = conclusion;
    this.#taken = length;
    this.#deadline = clock.monotonic() + limits.total_seconds * 1000;
    this.#timer = clock.after(Math.min(limits.total_seconds, limits.silence_seconds) * 1000, () => this.#onSilence());
  }

  start(): void {
    // A connection that has closed says nothing any more.
    if (this.#req.destroyed) this.#onGone();
    else this.#req.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onGone).on('close', this.#onGone);
  }

  readonly #onData = (chunk: Buffer): void => {
    const size = this.#size + chunk.length;
    try {
      if (size > this.#limits.max_bytes) throw tooLarge(this.#limits.max_bytes);
      // Most bodies come in one chunk, which then is the body.
      if (this.#size === 0 && chunk.length === this.#taken) this.#memory = chunk;
      else this.#append(chunk, size);
      this.#size = size;
    } catch (error) {
      this.#fail(error as Error);
    }
  };

  readonly #onEnd = (): void => {
    this.#stop();
    this.#conclusion.resolve(this.#memory?.subarray(0, this.#size) ?? Buffer.alloc(0));
  };

  readonly #onGone = (): void =>
    this.#fail(new StageError('bad_http', 'The connection ended before the request body was complete.'));

  #append(chunk: Buffer, size: number): void {
    // The clock's timer measures silence only; who never falls silent is late all the same.
    if (this.#clock.monotonic() > this.#deadline) throw this.#late();
    this.#makeRoom(size);
    chunk.copy(this.#memory!, this.#size);
    releaseMemory(chunk);
    this.#timer.refresh();
  }

  /** Memory of its own for each body: its pages are touched as they are filled, and go back as soon as it is dropped. */
  #makeRoom(size: number): void {
    const old = this.#memory;
    if (old !== undefined && old.length >= size) return;
    if (size <= this.#taken) {
      this.#memory = Buffer.allocUnsafeSlow(this.#taken);
      return;
    }
    const larger = Math.min(Math.max(size, 2 * this.#taken, FIRST_ROOM_BYTES), this.#limits.max_bytes);
    this.#room.take(larger);
    this.#memory = Buffer.allocUnsafeSlow(larger);
    old?.copy(this.#memory, 0, 0, this.#size);
    this.#room.give(this.#taken);
    this.#taken = larger;
  }

  #onSilence(): void {
    if (this.#clock.monotonic() >= this.#deadline) this.#fail(this.#late());
    else this.#fail(late(`No byte of the request body arrived for ${this.#limits.silence_seconds} seconds.`));
  }

  #late(): StageError {
    return late(`The request body was not complete after ${this.#limits.total_seconds} seconds.`);
  }

  #fail(error: Error): void {
    this.#stop();
    this.#room.give(this.#taken);
    this.#memory = undefined;
    this.#conclusion.reject(error);
  }

  #stop(): void {
    this.#timer.close();
    this.#req.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#onGone).off('close', this.#onGone);
  }
}
