import type { AdminAction } from '../audit/admin-changes.ts';

/** What the operations of the admin API do that change something, as `admin_changes` names it. */
export const ADMIN_ACTIONS: Readonly<Record<string, AdminAction>> = {
  createToken: 'token.create',
  revokeToken: 'token.revoke',
  rotateToken: 'token.rotate',
  endSession: 'session.end',
  endSessions: 'session.end',
  deprovision: 'person.deprovision',
  rebind: 'person.rebind',
  setLimit: 'limit.set',
  clearLimit: 'limit.clear',
  grantLimit: 'limit.grant',
  revokeGrant: 'limit.revoke',
  drainUpstream: 'upstream.drain',
  resumeUpstream: 'upstream.resume',
  createServiceToken: 'service_token.create',
  revokeServiceToken: 'service_token.revoke',
  rotateServiceToken: 'service_token.rotate',
};
