import type { Protocol } from '../../../base/contract/protocol.ts';

/** Everything that differs by `upstreams[].type`: a file each, listed in `index.ts`. */
export interface UpstreamType {
  /** What it speaks, for the description of `type` in the schema. */
  readonly summary: string;
  /** Protocols it speaks where gateway.yaml names none; requests of other clients are translated into the first. */
  readonly protocols: readonly Protocol[];
  /** Protocols that `upstreams[].protocols` can choose from; without any, the key is an error. */
  readonly selectable_protocols: readonly Protocol[];
  /** Whether it has a request that counts tokens. */
  readonly counts_tokens: boolean;
  /** Whether a version in the base URL, such as `/v1`, takes the place of the one in the paths of requests. */
  readonly versioned_base_url: boolean;
  /** Matches a base URL that ends with part of a request's path; the first group is that part. */
  readonly request_path: RegExp;
  /** Headers that carry `api_key_env`. */
  readonly keyHeaders: (key: string) => Readonly<Record<string, string>>;
  /** Headers that carry `auth_token_env`. */
  readonly tokenHeaders: (token: string) => Readonly<Record<string, string>>;
  readonly models: ModelListRequest;
  readonly init: InitTemplate;
}

/** How an upstream is asked for its models. `check --live` and `doctor` send the same request as a probe. */
export interface ModelListRequest {
  readonly path: string;
  /** Query of every page, such as its size. */
  readonly query: Readonly<Record<string, string>>;
  /** Query parameter with the id after which the next page begins. */
  readonly after: string;
}

/** What `appscli init` asks and writes. */
export interface InitTemplate {
  /** The protocol in its question, for people. */
  readonly speaks: string;
  /** Value of `protocols` in the gateway.yaml that it writes; absent where the key is left out. */
  readonly protocols?: readonly Protocol[];
  /** A response in the form of YAML flow style, for the tests that it writes; absent: a Messages response. */
  readonly response?: string;
}
