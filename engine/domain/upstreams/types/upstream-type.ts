import type { UpstreamConfig } from '../../../base/contract/config.ts';
import { PROTOCOLS, type Protocol } from '../../../base/contract/protocol.ts';
import { definitionOf } from '../../protocols/index.ts';

/** Everything that differs by `upstreams[].type`: a file each, listed in `index.ts`. */
export interface UpstreamType {
  /** Default protocols; requests in other protocols are translated into the first. */
  readonly protocols: readonly Protocol[];
  /** Valid values of `upstreams[].protocols`; if empty, the key is an error. */
  readonly selectable_protocols: readonly Protocol[];
  readonly counts_tokens: boolean;
  /** Whether a version in the base URL, such as `/v1`, replaces the version in request paths. */
  readonly versioned_base_url: boolean;
  readonly keyHeaders: (key: string) => Readonly<Record<string, string>>;
  readonly tokenHeaders: (token: string) => Readonly<Record<string, string>>;
  readonly models: ModelListRequest;
}

/** The request for an upstream's model list. `check --live` and `doctor` send it as a probe. */
export interface ModelListRequest {
  readonly path: string;
  /** Query of every page, such as its size. */
  readonly query: Readonly<Record<string, string>>;
  /** Query parameter with the id after which the next page begins. */
  readonly after: string;
}

/** The protocols of upstreams of a type. */
export function protocolsOf(type: UpstreamConfig['type']): readonly Protocol[] {
  return PROTOCOLS.filter((protocol) => definitionOf(protocol).upstream_type === type);
}
