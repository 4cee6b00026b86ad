import { createConnection, type Socket } from 'node:net';
import { ResponseParser } from './response-parser.ts';

/** One request and its response. Times are monotonic milliseconds. */
export interface Exchange {
  sent_at: number;
  first_byte_at: number;
  ended_at: number;
  status: number;
  /** Blank lines that end a server-sent event. */
  events: number;
  failed: boolean;
}

const NEWLINE = 10;

/** A kept-alive connection that carries one exchange at a time. */
export class Connection {
  readonly #socket: Socket;
  #exchange: Exchange | undefined;
  #done: ((exchange: Exchange) => void) | undefined;
  #last_byte = 0;
  #open = true;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#socket = createConnection({ host: hostname, port: Number(port), noDelay: true });
    const parser = new ResponseParser({
      onHead: (status) => {
        if (this.#exchange) this.#exchange.status = status;
      },
      onBody: (bytes) => this.#onBody(bytes),
      onEnd: () => this.#end(false),
    });
    this.#socket.on('data', (bytes) => parser.push(bytes));
    this.#socket.on('error', () => this.#end(true));
    this.#socket.on('close', () => {
      this.#open = false;
      this.#end(true);
    });
  }

  /** Whether the server has not closed it yet. */
  get open(): boolean {
    return this.#open;
  }

  /** Sends one prepared request; `done` is called once, also when the connection fails. */
  send(parts: readonly Buffer[], done: (exchange: Exchange) => void): void {
    const now = performance.now();
    this.#exchange = { sent_at: now, first_byte_at: 0, ended_at: 0, status: 0, events: 0, failed: false };
    this.#done = done;
    this.#last_byte = 0;
    this.#socket.cork();
    for (const part of parts) this.#socket.write(part);
    this.#socket.uncork();
  }

  /** Drops the connection. */
  close(): void {
    this.#socket.destroy();
  }

  #onBody(bytes: Buffer): void {
    const exchange = this.#exchange;
    if (exchange === undefined) return;
    if (exchange.first_byte_at === 0) exchange.first_byte_at = performance.now();
    let previous = this.#last_byte;
    for (let index = bytes.indexOf(NEWLINE); index >= 0; index = bytes.indexOf(NEWLINE, index + 1)) {
      if ((index === 0 ? previous : bytes[index - 1]) === NEWLINE) exchange.events++;
    }
    previous = bytes[bytes.length - 1] as number;
    this.#last_byte = previous;
  }

  #end(failed: boolean): void {
    const exchange = this.#exchange;
    if (exchange === undefined) return;
    this.#exchange = undefined;
    exchange.ended_at = performance.now();
    exchange.failed = failed || exchange.status !== 200;
    this.#done?.(exchange);
  }
}
