/** How many whole months are kept. */
export interface RetentionConfig {
  readonly ledger_months: number | 'forever';
  readonly audit_months: number | 'forever';
}

/** What is kept where gateway.yaml says nothing. */
export const DEFAULT_RETENTION: RetentionConfig = { ledger_months: 'forever', audit_months: 13 };
