/** What a service token may be allowed: to look at or to change one kind of thing in the admin API. */
export const SERVICE_SCOPES = [
  'tokens:read',
  'tokens:write',
  'sessions:read',
  'sessions:write',
  'people:read',
  'people:write',
  'limits:read',
  'limits:write',
  'upstreams:read',
  'upstreams:write',
  'usage:read',
  'requests:read',
  'changes:read',
] as const;

/** One thing a service token may be allowed. */
export type ServiceScope = (typeof SERVICE_SCOPES)[number];
