/** `shadow`: evaluated and recorded, never enforced. */
export type RuleMode = 'enforce' | 'shadow';

/** One entry of `routing.rules`; every field that is present must match. */
export interface RoutingRuleConfig {
  /** The place in the file, such as `routing.rules[0]`, where the file gives no name. */
  readonly name: string;
  readonly user?: string;
  readonly team?: string;
  readonly group?: string;
  readonly project?: string;
  readonly models?: readonly string[];
  readonly region?: string;
  /** JSON-Logic with named rules expanded. */
  readonly when?: unknown;
  readonly upstream: string;
  readonly mode: RuleMode;
}
