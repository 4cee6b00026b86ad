import { later, type Section, yes } from './requirement.ts';

const OUTSIDE = 'an unknown model > outside the token group is answered like one that does not exist';

/** Who may, and with which credential. */
export const IDENTITY: Section = {
  title: 'Credentials and sign-in',
  requirements: [
    yes('credentials.bearer', 'clients send `Authorization: Bearer`', {
      'stages/authenticate.test.ts': ['authenticate > accepts a bearer credential, whatever the case of the scheme'],
      'e2e/clients/sdk.test.ts': ['the SDK gets exactly the message the upstream sent'],
    }),
    later(
      'credentials.console',
      'tokens are made in a console',
      'console',
      'made at the command line and by the admin API until then',
    ),
    yes('credentials.token-group', 'a token is made for a token group', {
      'cli/tokens/tokens.test.ts': [
        'tokens create prints the token alone on standard output, and a running gateway takes it',
        'a token for a group that gateway.yaml does not have is refused with the groups it has',
      ],
    }),
    yes('credentials.wrong-group', 'a model outside its group is not found', {
      'e2e/hostile/bad-input.test.ts': [OUTSIDE],
    }),
    yes('credentials.one-per-client', 'each client may have a token of its own, ended alone', {
      'e2e/hostile/bad-input.test.ts': ['a credential > that was revoked is refused within a second'],
      'identity/tokens/tokens.test.ts': ['administering access tokens > revokes by id or by name and user, once'],
      'cli/tokens/tokens.test.ts': ['a token that is revoked leaves the others of its owner alone'],
    }),
    yes('credentials.key-helper', 'a key helper gets a fresh credential', {
      'e2e/sign-in/login.test.ts': [
        'somebody who may sign in > gets a new token when the old one comes to its end, from any number of calls once',
      ],
      'cli/sign-in/token.test.ts': ['a token > that lives for long is printed alone, and nobody is asked'],
      'cli/client/client-sign-in.test.ts': [
        'a key helper > written by the program itself prints a token from any directory, with an empty environment',
      ],
    }),
    yes(
      'credentials.no-project-files',
      'tokens go into files of the user, for nobody else to read, and are not shown',
      {
        'cli/client/client.test.ts': [
          'the coding CLI > gets its two files, the credential in one that only its user can read',
        ],
        'cli/client/client-check.test.ts': [
          'the program itself > reads a token from standard input and shows it nowhere',
        ],
      },
    ),
    yes('credentials.base-url', 'the base URL is set on the device, by `appscli client` or its printed files', {
      'cli/client/client.test.ts': [
        'the Messages client > may have them in its settings, beside what is there',
        'every client > is printed without a token at hand',
      ],
      'cli/client/client-sign-in.test.ts': [
        'a file for every machine > goes where the client looks for it, and everybody may read it',
        'a file for every machine > holds no token, however it is asked for',
      ],
    }),
    yes('sign-in.oidc', 'people sign in by issuer, client id, client secret and allowed groups', {
      'http/sign-in/device-flow.test.ts': [
        'a sign-in > goes from a device code by way of the browser to a session token',
      ],
      'examples/oidc-and-postgres.test.ts': [
        'an engineer signs in to every model and the base policy, a contractor to one model and both policies',
        'who is in no allowed group, or has an address elsewhere, is turned away',
      ],
    }),
    yes('credentials.upstream', 'upstreams get the credential of their entry, and never that of a caller', {
      'e2e/streams/fidelity.test.ts': [
        "the request line and headers > a caller's credential sent as bearer is replaced by the upstream's",
        "the request line and headers > a caller's credential sent as key is replaced by the upstream's",
        'the request line and headers > an upstream with auth_token_env gets a bearer token and no API key',
      ],
    }),
    yes('credentials.coding-cli', 'the coding CLI has its key in `auth.json`', {
      'e2e/clients/client-files.test.ts': [
        'a client that does as its files say > for the coding CLI gets its reply over Responses, with the key of auth.json',
      ],
    }),
    yes('credentials.nowhere', 'secrets are in no output, log, record or error', {
      'e2e/hostile/secrets.test.ts': [
        'no secret and no prompt text is in any output, error, audit record or ledger row',
      ],
      'e2e/hostile/planted-secrets.test.ts': ['no secret of sign-in is in any log record, answer, output or table'],
    }),
  ],
};
