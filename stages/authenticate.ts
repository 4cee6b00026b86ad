import { defineStage, type Principal, StageError } from '../engine/api.ts';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

const CREDENTIAL_ERRORS: ReadonlySet<string> = new Set([
  'credential_missing',
  'credential_invalid',
  'credential_expired',
  'credential_revoked',
]);
const RESPONSE_HEADERS = { 'www-authenticate': 'Bearer', 'x-should-retry': 'false' };
const BEARER = /^bearer(?: +(\S+))? *$/i;

/**
 * The credential of a request: `Authorization: Bearer`, else `x-api-key`. A client may send both, such as the output of a
 * key helper, or a key left over from another login: then the Authorization header decides.
 */
function readCredential({ authorization = '', 'x-api-key': api_key }: Headers): string {
  const bearer = BEARER.exec(String(authorization));
  if (bearer?.[1] !== undefined) return bearer[1];
  if (typeof api_key === 'string' && api_key.trim() !== '') return api_key.trim();
  if (authorization === '' || bearer !== null) {
    throw new StageError(
      'credential_missing',
      'This request has no credential: send an access token or session token as "Authorization: Bearer <token>" or as "x-api-key: <token>".',
    );
  }
  throw new StageError(
    'credential_invalid',
    'The Authorization header is malformed: it must be the word "Bearer" followed by one token.',
  );
}

/** Tells clients not to try the same credential again; trouble of the gateway's own passes unchanged. */
function refuse(error: unknown): never {
  if (!(error instanceof StageError) || !CREDENTIAL_ERRORS.has(error.code)) throw error;
  const { code, message, details, status, headers } = error;
  throw new StageError(code, message, { details, status, headers: { ...headers, ...RESPONSE_HEADERS }, cause: error });
}

export default defineStage({
  name: 'authenticate',
  version: 1,
  summary: 'Finds out who is calling by the access token or session token sent as a bearer credential or as x-api-key.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'Refuse requests without a valid credential', yaml: '- stage: authenticate' }],
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
        try {
          // Almost always cached: then nothing is awaited.
          const verified = tokens.verify(readCredential(ctx.headers));
          return verified instanceof Promise ? verified.then(admit).catch(refuse) : admit(verified);
        } catch (error) {
          return refuse(error);
        }
      },
    };
  },
});
