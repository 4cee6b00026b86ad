import type { GatewayConfig } from '../contract/config.ts';
import type { ErrorCode } from '../contract/errors.ts';
import type { StageDefinition } from '../contract/stage.ts';
import type { Diagnostic } from './diagnostics/diagnostic.ts';
import type { MapNode, Mark, SourcePosition } from './node.ts';

/** The position of a mark, without what only diagnostics need. */
export function positionOf({ file, line, column }: SourcePosition): SourcePosition {
  return { file, line, column };
}

/** One stage of a pipeline after linking. */
export interface StageEntry {
  /** Unique within the pipeline; the stage's name unless the file says otherwise. */
  readonly id: string;
  readonly definition: StageDefinition;
  /** Validated, defaulted, deeply frozen. */
  readonly options: unknown;
  /** JSON-Logic with named rules expanded; absent means always. */
  readonly when?: unknown;
  readonly when_position?: SourcePosition;
  /** `shadow`: the guard is evaluated and recorded, the stage never runs. */
  readonly mode: 'enforce' | 'shadow';
  /** Whether a failure of the stage (not a refusal) fails the request; otherwise the request goes on without it. */
  readonly fail_closed: boolean;
  /** Longest a hook of the stage may take, in seconds; absent means no limit. */
  readonly timeout_seconds?: number;
  readonly position: SourcePosition;
  /** Fragments that brought the entry in, outermost first. */
  readonly chain?: readonly { readonly file: string; readonly line: number }[];
}

/** One clause of `on_error`: a terminal stage for some error codes. */
export interface ErrorClause extends StageEntry {
  /** Codes it handles; absent means all. */
  readonly errors?: readonly ErrorCode[];
}

/** A named rule of a pipeline. */
export interface NamedRule {
  readonly name: string;
  /** JSON-Logic with named rules expanded. */
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
    readonly protocol: 'messages' | 'count_tokens' | 'models' | 'chat' | 'responses' | 'none';
  };
  readonly limits: { readonly body_bytes?: number };
  readonly rules: readonly NamedRule[];
  readonly stages: readonly StageEntry[];
  readonly on_error: readonly ErrorClause[];
  readonly finally: readonly StageEntry[];
}

/** What `load` found. `config` and `pipelines` are complete only when no diagnostic is an error. */
export interface Loaded {
  readonly config: GatewayConfig | undefined;
  readonly pipelines: readonly PipelineSpec[];
  /** What runs after requests that no pipeline serves: the `finally` stages of `all_pipelines`. */
  readonly other_requests?: PipelineSpec | undefined;
  /** Managed policies, by name; none when they are not handed out. */
  readonly policies: readonly Policy[];
  readonly diagnostics: readonly Diagnostic[];
  /** Every file it depends on, absolute, also those that are missing. */
  readonly files: readonly string[];
  /** Files with secrets, absolute, also those that are missing. They are no part of the configuration, and never kept. */
  readonly secret_files: readonly string[];
  /** Directory of the operator's own pipelines, absolute, also when something is wrong. */
  readonly pipelines_directory: string | undefined;
  /** Directory of managed policies, absolute, also when something is wrong; `undefined` when they are not handed out. */
  readonly policies_directory: string | undefined;
  /** Where something of gateway.yaml stands, by JSON pointer; `undefined` when it is not written there. */
  positionOf(pointer: string): SourcePosition | undefined;
  /** Text of each file with secrets blanked out, for snippets of diagnostics. */
  readonly sources: ReadonlyMap<string, string>;
  /** What gateway.yaml says of this machine alone, where it stands there. */
  readonly of_machine: readonly { readonly mark: Mark; readonly value: string }[];
}

/** One policy file after all load passes. */
export interface Policy {
  /** Unique; that of the file without its ending. */
  readonly name: string;
  readonly version: number;
  readonly summary: string;
  /** Absolute. */
  readonly file: string;
  readonly match: PolicyMatch;
  readonly priority: number;
  /** What clients get, with the position of each part. */
  readonly settings: MapNode;
}

/** Whom a policy is meant for: either list fits. */
export interface PolicyMatch {
  readonly groups: readonly string[];
  /** Lower case. */
  readonly email_domains: readonly string[];
}
