import type { GatewayConfig } from '../contract/config.ts';
import type { ErrorCode } from '../contract/errors.ts';
import type { Served } from '../contract/protocol.ts';
import type { StageDefinition } from '../contract/stage.ts';
import type { Diagnostic } from './diagnostics/diagnostic.ts';
import type { Chain, MapNode, Mark, SourcePosition } from './node.ts';

/** The position of a mark, without its other fields. */
export function positionOf({ file, line, column }: SourcePosition): SourcePosition {
  return { file, line, column };
}

/** One stage of a pipeline after linking. */
export interface StageEntry {
  /** Unique within the pipeline; by default the stage's name. */
  readonly id: string;
  readonly definition: StageDefinition;
  /** Validated, defaulted, deeply frozen. */
  readonly options: unknown;
  /** JSON-Logic with named rules expanded; absent means always. */
  readonly when?: unknown;
  readonly when_position?: SourcePosition;
  /** `shadow`: the guard is evaluated and recorded, the stage never runs. */
  readonly mode: 'enforce' | 'shadow';
  /** Whether a failure of the stage (not a rejection) fails the request; otherwise the request continues without it. */
  readonly fail_closed: boolean;
  /** Timeout of each hook of the stage, in seconds; absent means no limit. */
  readonly timeout_seconds?: number;
  readonly position: SourcePosition;
  /** Fragments that include the entry, outermost first. */
  readonly chain?: Chain;
}

/** One clause of `on_error`: a terminal stage for some error codes. */
export interface ErrorClause extends StageEntry {
  /** Codes it handles; absent means all. */
  readonly errors?: readonly ErrorCode[];
}

/** A named rule of a pipeline. */
export interface NamedRule {
  readonly name: string;
  readonly logic: unknown;
  readonly position: SourcePosition;
}

/** A pipeline file after all load passes. */
export interface PipelineSpec {
  readonly name: string;
  readonly version: number;
  readonly summary: string;
  readonly file: string;
  readonly match: {
    readonly methods: readonly string[];
    readonly paths: readonly string[];
    readonly protocol: Served;
  };
  readonly limits: { readonly body_bytes?: number };
  readonly rules: readonly NamedRule[];
  readonly stages: readonly StageEntry[];
  readonly on_error: readonly ErrorClause[];
  readonly finally: readonly StageEntry[];
}

/** The result of `load`. `config` and `pipelines` are complete only if no diagnostic is an error. */
export interface Loaded {
  readonly config: GatewayConfig | undefined;
  readonly pipelines: readonly PipelineSpec[];
  /** The `finally` stages of `all_pipelines`; they run after requests that no pipeline serves. */
  readonly other_requests?: PipelineSpec | undefined;
  /** Managed policies, by name; empty if managed policies are off. */
  readonly policies: readonly Policy[];
  readonly diagnostics: readonly Diagnostic[];
  /** Absolute paths of all files it depends on, including missing ones. */
  readonly files: readonly string[];
  /** Absolute paths of secret files, including missing ones. Their content is never part of the configuration. */
  readonly secret_files: readonly string[];
  /** Absolute path of the operator's pipelines; set despite errors. */
  readonly pipelines_directory: string | undefined;
  /** Absolute path of the managed policies; set despite errors; `undefined` if managed policies are off. */
  readonly policies_directory: string | undefined;
  /** Position of a value of gateway.yaml, by JSON pointer; `undefined` if it is not written there. */
  positionOf(pointer: string): SourcePosition | undefined;
  readonly sources: ReadonlyMap<string, string>;
  /** Values of gateway.yaml for this machine only, with their marks. */
  readonly of_machine: readonly { readonly mark: Mark; readonly value: string }[];
}

/** One policy file after all load passes. */
export interface Policy {
  /** Unique; the file name without its extension. */
  readonly name: string;
  readonly version: number;
  readonly summary: string;
  readonly file: string;
  readonly match: PolicyMatch;
  readonly priority: number;
  readonly settings: MapNode;
}

/** The people a policy applies to: members of either list. */
export interface PolicyMatch {
  readonly groups: readonly string[];
  readonly email_domains: readonly string[];
}
