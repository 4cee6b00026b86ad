import https, { type AgentOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

type Done = (error: Error | null, stream: Duplex) => void;

/** An HTTPS agent with custom connections to one server, such as tunnels through a proxy. */
export class TunnelAgent extends https.Agent {
  readonly #open: () => Promise<TLSSocket>;

  constructor(options: AgentOptions, open: () => Promise<TLSSocket>) {
    super(options);
    this.#open = open;
  }

  override createConnection(_options: object, done: Done): undefined {
    this.#open().then(
      (socket) => done(null, socket),
      (error) => done(error, undefined as unknown as Duplex),
    );
  }
}
