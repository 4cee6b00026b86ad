import { AUTH_CODES } from './codes/auth.ts';
import { EXPAND_CODES } from './codes/expand.ts';
import { FLOW_CODES } from './codes/flow.ts';
import { LINK_CODES } from './codes/link.ts';
import { LINT_CODES } from './codes/lints.ts';
import { MONEY_CODES } from './codes/money.ts';
import { POLICY_CODES } from './codes/policies.ts';
import { RULE_CODES } from './codes/rules.ts';
import { SCHEMA_CODES } from './codes/schema.ts';
import { SOURCE_CODES } from './codes/source.ts';
import { TELEMETRY_CODES } from './codes/telemetry.ts';
import { TEST_CODES } from './codes/tests.ts';
import { UPSTREAM_CODES } from './codes/upstreams.ts';
import { WARNING_CODES } from './codes/warnings.ts';

/** What the reference says about one diagnostic code. */
export interface DiagnosticSpec {
  /** The mistake in a few words. */
  readonly title: string;
  /** Why it is a mistake and what to do about it. */
  readonly explanation: string;
  /**
   * A piece of configuration that has it: a part of a file, completed to a whole one where it is checked. `# path` begins a
   * file, `...` stands for what is needed beside.
   */
  readonly example: string;
}

/** Every diagnostic, by code: C1 source, C2 expand, C3 schema, C4 link, C5 rules, C6 flow, W7 warnings, C8 pipeline tests, C9 managed policies. */
export const DIAGNOSTICS = {
  ...SOURCE_CODES,
  ...EXPAND_CODES,
  ...SCHEMA_CODES,
  ...LINK_CODES,
  ...AUTH_CODES,
  ...MONEY_CODES,
  ...TELEMETRY_CODES,
  ...UPSTREAM_CODES,
  ...RULE_CODES,
  ...FLOW_CODES,
  ...WARNING_CODES,
  ...LINT_CODES,
  ...TEST_CODES,
  ...POLICY_CODES,
} as const satisfies Record<string, DiagnosticSpec>;

/** A diagnostic code. */
export type DiagnosticCode = keyof typeof DIAGNOSTICS;
