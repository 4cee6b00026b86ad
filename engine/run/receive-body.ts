import type { IncomingMessage } from 'node:http';
import { StageError } from '../contract/errors.ts';
import type { Clock, Timer } from '../contract/services.ts';
import { releaseMemory } from '../kit/memory.ts';
import type { HeldBytes } from './body-budget.ts';
import { BodyMemory } from './body-memory.ts';

/** What a client may take for sending a body. */
export interface BodyLimits {
  readonly max_bytes: number;
  /** From the first look at the body to its last byte. */
  readonly total_seconds: number;
  /** Longest silence of a sending client. */
  readonly silence_seconds: number;
}

/** The error for a body of more than this many bytes. @param of_what such as " without its compression" */
export function tooLarge(limit: number, of_what = ''): StageError {
  return new StageError(
    'body_too_large',
    `The request body is larger than ${limit} bytes${of_what}, the most this gateway accepts.`,
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
    const memory = new BodyMemory(room, length, limits.max_bytes, () => tooLarge(limits.max_bytes));
    new Receiving(req, { limits, clock, memory }, { resolve, reject }).start();
  });
}

/** What a body is received with. */
interface Reception {
  readonly limits: BodyLimits;
  readonly clock: Clock;
  readonly memory: BodyMemory;
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
  readonly #clock: Clock;
  readonly #memory: BodyMemory;
  readonly #conclusion: Conclusion;
  readonly #deadline: number;
  readonly #timer: Timer;

  constructor(req: IncomingMessage, { limits, clock, memory }: Reception, conclusion: Conclusion) {
    this.#req = req;
    this.#limits = limits;
    this.#clock = clock;
    this.#memory = memory;
    this.#conclusion = conclusion;
    this.#deadline = clock.monotonic() + limits.total_seconds * 1000;
    this.#timer = clock.after(Math.min(limits.total_seconds, limits.silence_seconds) * 1000, () => this.#onSilence());
  }

  start(): void {
    // A connection that has closed says nothing any more.
    if (this.#req.destroyed) this.#onGone();
    else this.#req.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onGone).on('close', this.#onGone);
  }

  readonly #onData = (chunk: Buffer): void => {
    try {
      if (!this.#memory.append(chunk)) return;
      releaseMemory(chunk);
      // The clock's timer measures silence only; who never falls silent is late all the same.
      if (this.#clock.monotonic() > this.#deadline) throw this.#late();
      this.#timer.refresh();
    } catch (error) {
      this.#fail(error as Error);
    }
  };

  readonly #onEnd = (): void => {
    this.#stop();
    this.#conclusion.resolve(this.#memory.finish());
  };

  readonly #onGone = (): void =>
    this.#fail(new StageError('bad_http', 'The connection ended before the request body was complete.'));

  #onSilence(): void {
    if (this.#clock.monotonic() >= this.#deadline) this.#fail(this.#late());
    else this.#fail(late(`No byte of the request body arrived for ${this.#limits.silence_seconds} seconds.`));
  }

  #late(): StageError {
    return late(`The request body was not complete after ${this.#limits.total_seconds} seconds.`);
  }

  #fail(error: Error): void {
    this.#stop();
    this.#memory.drop();
    this.#conclusion.reject(error);
  }

  #stop(): void {
    this.#timer.close();
    this.#req.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#onGone).off('close', this.#onGone);
  }
}
