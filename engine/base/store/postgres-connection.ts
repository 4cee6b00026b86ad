import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import pg from 'pg';

/** Settings of a connection: those of pg, and extensions. */
export interface PostgresSettings extends pg.ClientConfig {
  /** With `ssl`: falls back to no encryption if the server does not support it, as libpq does for `sslmode=prefer`. */
  readonly plain_allowed?: boolean;
  /** The server must prove that it has the key of its certificate and knows the password (RFC 5929 section 4). */
  readonly channel_binding?: 'require';
}

/** Untyped parts of a pg connection. */
interface Wire extends EventEmitter {
  readonly stream: Duplex;
  connect(port: number | string, host?: string): void;
  attachListeners(stream: Duplex): void;
  password(text: string): void;
  sendSASLInitialResponseMessage(mechanism: string, response: string): void;
}

const PgConnection = pg.Connection as unknown as new (config: object) => Wire;

/** Response of a server without TLS to an SSLRequest (PostgreSQL documentation, section 54.2.10). */
const NO_TLS = 'N';
const CHANNEL_BOUND = 'SCRAM-SHA-256-PLUS';

class NegotiatedConnection extends PgConnection {
  readonly #plain_allowed: boolean;
  readonly #must_bind: boolean;
  #is_bound = false;

  constructor({ plain_allowed, channel_binding, ...config }: PostgresSettings) {
    super({ ...config, sslNegotiation: config.sslnegotiation });
    this.#plain_allowed = plain_allowed === true;
    this.#must_bind = channel_binding === 'require';
    this.on('authenticationOk', () => {
      if (this.#must_bind && !this.#is_bound) this.#refuse();
    });
  }

  override connect(port: number | string, host?: string): void {
    super.connect(port, host);
    if (!this.#plain_allowed) return;
    const [negotiate] = this.stream.listeners('data') as ((answer: Buffer) => void)[];
    this.stream.removeAllListeners('data').once('data', (answer: Buffer) => {
      if (answer.toString('latin1') !== NO_TLS) return negotiate!(answer);
      this.attachListeners(this.stream);
      this.emit('sslconnect');
    });
  }

  override password(text: string): void {
    if (this.#must_bind) this.#refuse();
    else super.password(text);
  }

  override sendSASLInitialResponseMessage(mechanism: string, response: string): void {
    this.#is_bound = mechanism === CHANNEL_BOUND;
    if (this.#must_bind && !this.#is_bound) this.#refuse();
    else super.sendSASLInitialResponseMessage(mechanism, response);
  }

  #refuse(): void {
    this.emit('error', new Error('the server does not bind the login to its certificate (channel_binding=require)'));
    this.stream.destroy();
  }
}

/** The settings for one pg client, with an own connection class where pg lacks a feature. */
export function clientConfig(settings: PostgresSettings): pg.ClientConfig {
  const { plain_allowed, channel_binding, ...config } = settings;
  if (!config.ssl || (plain_allowed !== true && channel_binding === undefined)) return config;
  const connection = new NegotiatedConnection(settings);
  return { ...config, enableChannelBinding: channel_binding !== undefined, connection } as pg.ClientConfig;
}
