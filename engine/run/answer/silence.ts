import { StageError } from '../../contract/errors.ts';
import type { Clock, Timer } from '../../contract/services.ts';
import type { Relay } from '../../contract/stage.ts';

/** Waits for silence that takes too long: before the first bytes of an answer, and between any two chunks from then on. */
export class Silence {
  readonly #clock: Clock;
  readonly #relay: Relay;
  readonly #onTooLong: (error: StageError) => void;
  #seconds: number;
  #timer: Timer | undefined;

  constructor(clock: Clock, relay: Relay, onTooLong: (error: StageError) => void) {
    this.#clock = clock;
    this.#relay = relay;
    this.#onTooLong = onTooLong;
    this.#seconds = relay.first_chunk_seconds ?? relay.idle_seconds;
  }

  /** Begins to wait. An answer that has come as a whole ends before. */
  begin(): void {
    this.#timer = this.#clock.after(this.#seconds * 1000, () => this.#onTooLong(silent(this.#seconds)));
  }

  /** Something has come. */
  end(): void {
    const { idle_seconds } = this.#relay;
    if (this.#seconds === idle_seconds) {
      this.#timer?.refresh();
      return;
    }
    this.#seconds = idle_seconds;
    if (this.#timer === undefined) return;
    this.#timer.close();
    this.begin();
  }

  /** Begins anew, as something else was waited for meanwhile. */
  refresh(): void {
    this.#timer?.refresh();
  }

  close(): void {
    this.#timer?.close();
  }
}

/** It has the request and has begun to answer: sent again, it is another one to pay. */
function silent(seconds: number): StageError {
  const message = `The upstream sent nothing for ${seconds} seconds.`;
  return new StageError('upstream_timeout', message, { headers: { 'x-should-retry': 'false' } });
}
