import { defineStage, type Principal, verifyCaller } from '../engine/api.ts';

export default defineStage({
  name: 'authenticate',
  version: 1,
  summary: 'Authenticates the caller by an access token or session token, sent as a bearer credential or as x-api-key.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'Reject requests without a valid credential', yaml: '- stage: authenticate' }],
  writes: [
    'principal.id',
    'principal.email',
    'principal.kind',
    'principal.groups',
    'principal.team',
    'principal.project',
    'principal.roles',
    'principal.token.id',
    'principal.token.name',
    'principal.token.group',
  ],
  raises: [
    'credential_missing',
    'credential_invalid',
    'credential_expired',
    'credential_revoked',
    'store_unavailable',
    'temporarily_unavailable',
  ],
  needs: ['database'],
  create(_options, { tokens }) {
    return {
      request(ctx) {
        const admit = (principal: Principal) => {
          ctx.set('principal.id', principal.id);
          ctx.set('principal.email', principal.email);
          ctx.set('principal.kind', principal.kind);
          ctx.set('principal.groups', principal.groups);
          ctx.set('principal.roles', principal.roles);
          ctx.set('principal.token.id', principal.token.id);
          ctx.set('principal.token.name', principal.token.name);
          if (principal.token.group !== undefined) ctx.set('principal.token.group', principal.token.group);
          if (principal.team !== undefined) ctx.set('principal.team', principal.team);
          if (principal.project !== undefined) ctx.set('principal.project', principal.project);
          return undefined;
        };
        const found = verifyCaller(ctx.headers, (token) => tokens.verify(token));
        return found instanceof Promise ? found.then(admit) : admit(found);
      },
    };
  },
});
