import type { Way } from '../../kit/net/way.ts';

export { SIGNALS, type Signal } from '../../contract/client-telemetry.ts';

/** How one signal is sent to a collector. */
export interface Target {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly protocol: 'http/protobuf' | 'http/json';
  readonly compression: 'gzip' | 'none';
  readonly timeout_seconds: number;
  /** Files in PEM: who signed the collector's certificate, and what the gateway shows of itself. */
  readonly ca_file?: string | undefined;
  readonly certificate_file?: string | undefined;
  readonly key_file?: string | undefined;
  /** How it is reached; directly where nothing is said. */
  readonly way?: Way | undefined;
}

/** A URL as logs and metrics tell it: without a query, in which there might be a key. */
export function publicUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}
