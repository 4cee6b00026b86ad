import type { Protocol } from '../../../base/contract/protocol.ts';

/** Everything that differs by `upstreams[].type`: a file each, listed in `index.ts`. */
export interface UpstreamType {
  /** The API, for the description of `type` in the schema. */
  readonly summary: string;
  /** Default protocols; requests in other protocols are translated into the first. */
  readonly protocols: readonly Protocol[];
  /** Valid values of `upstreams[].protocols`; if empty, the key is an error. */
  readonly selectable_protocols: readonly Protocol[];
  readonly counts_tokens: boolean;
  /** Whether a version in the base URL, such as `/v1`, replaces the version in request paths. */
  readonly versioned_base_url: boolean;
  /** Matches a base URL that ends with part of a request's path; the first group is that part. */
  readonly request_path: RegExp;
  readonly keyHeaders: (key: string) => Readonly<Record<string, string>>;
  readonly tokenHeaders: (token: string) => Readonly<Record<string, string>>;
  readonly models: ModelListRequest;
  readonly init: InitTemplate;
}

/** The request for an upstream's model list. `check --live` and `doctor` send it as a probe. */
export interface ModelListRequest {
  readonly path: string;
  /** Query of every page, such as its size. */
  readonly query: Readonly<Record<string, string>>;
  /** Query parameter with the id after which the next page begins. */
  readonly after: string;
}

/** Question and files of `appscli init`. */
export interface InitTemplate {
  /** The display name of the protocol, in the question. */
  readonly speaks: string;
  /** Value of `protocols` in the new gateway.yaml; absent: no such key. */
  readonly protocols?: readonly Protocol[];
  /** A response in YAML flow style, for the new tests; absent: a Messages response. */
  readonly response?: string;
}
