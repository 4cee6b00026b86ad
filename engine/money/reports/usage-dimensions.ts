/** Which ledger rows a report counts; every field that is present must match. */
export interface UsageFilter {
  /** Forwarded at or after; a date (YYYY-MM-DD) is midnight in the time zone of the report. */
  readonly since?: Date | string | undefined;
  /** Forwarded before; a date is midnight as well. */
  readonly until?: Date | string | undefined;
  /** E-mail address, any case. */
  readonly user?: string | undefined;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  readonly model?: string | undefined;
  readonly upstream?: string | undefined;
  readonly upstream_model?: string | undefined;
  readonly protocol?: string | undefined;
  /** Id of an access token or session. */
  readonly token?: string | undefined;
  readonly token_group?: string | undefined;
  /** Model that answered, where it is not the one asked for; service tier and speed, where they are not the ordinary ones. */
  readonly answered_model?: string | undefined;
  readonly service_tier?: string | undefined;
  readonly speed?: string | undefined;
}

/** The dimensions that are texts of a row, by which it can be looked for. */
export const NAMED = [
  'user',
  'team',
  'project',
  'model',
  'upstream',
  'upstream_model',
  'protocol',
  'token',
  'token_group',
  'answered_model',
  'service_tier',
  'speed',
] as const;

/**
 * What usage can be grouped by. An hour, day, week (ISO 8601) or month is that in which it was forwarded, as limits count
 * it; `status` is a class such as `2xx`; `estimated` is `yes` where the upstream did not say what was used, and `clamped`
 * where it said more than is possible.
 */
export const USAGE_DIMENSIONS = [...NAMED, 'status', 'estimated', 'hour', 'day', 'week', 'month'] as const;

/** One of them. */
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

/** Columns of lines; a token group is that of the token. */
export const COLUMNS = {
  user: 'user_email',
  team: 'team',
  project: 'project',
  model: 'model',
  upstream: 'upstream',
  upstream_model: 'upstream_model',
  protocol: 'protocol',
  token: 'token_id',
  token_group: 'token_id',
  answered_model: 'answered_model',
  service_tier: 'service_tier',
  speed: 'speed',
  status: 'status',
  // An adjustment goes with what it adjusts.
  estimated: 'estimated',
} as const satisfies Readonly<Record<Exclude<UsageDimension, UsageTime>, keyof typeof NUMBERS>>;

/** Those that are times. */
export type UsageTime = 'hour' | 'day' | 'week' | 'month';

/** How times are told, for `to_char`. */
export const FORMATS: Readonly<Record<UsageTime, string>> = {
  hour: 'YYYY-MM-DD"T"HH24:00',
  day: 'YYYY-MM-DD',
  week: 'IYYY-"W"IW',
  month: 'YYYY-MM',
};

/** Whether a dimension is a time. */
export const isTime = (dimension: UsageDimension): dimension is UsageTime => Object.hasOwn(FORMATS, dimension);

/** What sums of usage are told apart by: columns of lines, and those of sums with the numbers of these names. */
export const NUMBERS = {
  user_email: 'user_n',
  team: 'team_n',
  project: 'project_n',
  token_id: 'token_n',
  model: 'model_n',
  upstream: 'upstream_n',
  upstream_model: 'upstream_model_n',
  protocol: 'protocol_n',
  answered_model: 'answered_model_n',
  service_tier: 'service_tier_n',
  speed: 'speed_n',
  status: 'status_n',
  estimated: 'estimated_n',
} as const;

/** Columns of counts. */
export const COUNTS = [
  'requests',
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
] as const;

/** Columns of money. */
export const AMOUNTS = ['cost_nano_usd', 'adjusted_nano_usd', 'possibly_billed_nano_usd', 'possible_nano_usd'] as const;

/** All columns that are summed up; without lines there is nothing. */
export const SUMMED = ['lines', ...COUNTS, ...AMOUNTS] as const;
