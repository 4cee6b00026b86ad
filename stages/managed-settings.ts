import { defineStage, StageError } from '../engine/api.ts';

/** Whether an If-None-Match header names an entity tag; weak ones count (RFC 9110 section 13.1.2). */
function isNamed(etag: string, if_none_match: string | readonly string[] | undefined): boolean {
  const text = typeof if_none_match === 'object' ? if_none_match.join(',') : (if_none_match ?? '');
  if (text.trim() === '*') return true;
  return text.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}

export default defineStage({
  name: 'managed-settings',
  version: 1,
  summary: 'Responds with the managed settings of the caller.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'No options', yaml: '- stage: managed-settings' }],
  reads: ['principal.id', 'principal.email', 'principal.groups'],
  writes: ['policy.names'],
  raises: ['policy_not_found'],
  needs: ['respond'],
  terminal: true,
  create(_options, { policies }) {
    return {
      request(ctx) {
        const policy = policies.of({ email: ctx.get('principal.email'), groups: ctx.get('principal.groups') });
        if (policy === undefined) {
          throw new StageError('policy_not_found', 'No managed policy applies to you; clients continue without one.');
        }
        const { etag, body, names } = policy;
        ctx.set('policy.names', names);
        policies.served(ctx.get('principal.id'), policy);
        // Settings differ by caller, and clients must revalidate to get changes.
        const headers = { etag, 'cache-control': 'private, no-cache' };
        if (isNamed(etag, ctx.headers['if-none-match'])) return { kind: 'answer', status: 304, headers, body: '' };
        return { kind: 'answer', status: 200, headers: { ...headers, 'content-type': 'application/json' }, body };
      },
    };
  },
});
