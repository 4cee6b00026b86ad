/** Where a gateway of ours says how a request reached it; nothing is asked of an upstream, and nothing is paid. */
export const SELFCHECK_PATH = '/v1/selfcheck';

/** A stream of that path: this many ticks, one every so many milliseconds. */
export const SELFCHECK_TICKS = 10;
export const SELFCHECK_TICK_MS = 150;

/** Names of the events of such a stream, in their order: the first holds what arrived, the last says that this was all. */
export const SELFCHECK_EVENTS = {
  arrived: 'selfcheck.arrived',
  tick: 'selfcheck.tick',
  done: 'selfcheck.done',
} as const;

/** How a request reached the gateway: what proxies on the way may have changed, and nothing secret. */
export interface SelfcheckArrived {
  readonly type: 'selfcheck.arrived';
  /** Of the program. */
  readonly version: string;
  /** Different for each process. */
  readonly instance: string;
  /** The gateway's clock, in ISO 8601. */
  readonly time: string;
  /** As received, behind the question mark; empty without one. */
  readonly query: string;
  readonly http: string;
  /** Whether this gateway itself ended TLS. */
  readonly tls: boolean;
  /** Which of the headers that can hold a credential came with one; never what is in them. */
  readonly credentials: readonly ('authorization' | 'x-api-key')[];
  /** Of those headers that the path tells of; names in lower case, each cut after 4096 characters. */
  readonly headers: Readonly<Record<string, string>>;
  readonly forwarded: {
    /** Addresses in X-Forwarded-For. */
    readonly for_hops: number;
    readonly proto: string | null;
    readonly host: string | null;
    /** Whether the sender is one of `server.trusted_proxies`. */
    readonly believed: boolean;
  };
  /** The body as it arrived, compressed or not. */
  readonly body: { readonly bytes: number; readonly sha256: string };
}
