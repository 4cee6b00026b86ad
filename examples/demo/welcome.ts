import { clientPackageUrl } from '../../engine/base/contract/client-package.ts';
import type { InstalledClient } from '../../engine/edge/cli/profiles.ts';
import type { DemoPerson } from './people.ts';

const WEEK = `The console shows a week of made-up traffic: the project demo-week.

`;

/** The text of `npm start` once everything runs: 80 columns, commands to paste into bash. */
export function welcome(demo: {
  readonly url: string;
  readonly upstream_url: string;
  readonly token: string;
  readonly config_file: string;
  /** Whether the database has the week of traffic. */
  readonly has_week: boolean;
  /** The coding clients on this machine. */
  readonly clients: readonly InstalledClient[];
  readonly sign_in?: {
    readonly public_url: string;
    readonly provider_url: string;
    readonly people: readonly DemoPerson[];
  };
}): string {
  const { sign_in, has_week } = demo;
  const ask = (path: string, flags = '', stream = '') => `curl ${flags}${demo.url}${path} \\
  -H 'x-api-key: ${demo.token}' \\
  -H 'content-type: application/json' \\
  -d '{"model": "demo-large", "max_tokens": 100,${stream}
       "messages": [{"role": "user", "content": "Hello, gateway!"}]}'`;
  const console_line = sign_in && `\n  Console    ${sign_in.public_url}/console  (sign in as Alice, the admin)`;
  const identity = sign_in && `\n  Identity   ${sign_in.provider_url}  (a mock identity provider)`;
  return `
The gateway is running.
${console_line ?? ''}
  Gateway    ${demo.url}
  Upstream   ${demo.upstream_url}  (a mock model provider)${identity ?? ''}
  Token      ${demo.token}

${has_week ? WEEK : ''}Commands to paste into another terminal, in this directory:

# 1. Send a request.
${ask('/v1/messages')}

# 2. Stream a response, word by word.
${ask('/v1/messages', '-N ', ' "stream": true,')}

# 3. Send chat completions, which the gateway translates for this upstream.
${ask('/v1/chat/completions')}

# 4. Show usage and cost.
node_modules/.bin/appscli usage --config ${demo.config_file}

# 5. Probe the gateway as a coding client would.
#    "node_modules/.bin/appscli doctor" checks the clients on your machine.
TOKEN=${demo.token} \\
  node_modules/.bin/appscli selfcheck --token-env TOKEN \\
  --base-url ${demo.url}

${setUp(demo)}${sign_in === undefined ? '' : signIn(sign_in.public_url, sign_in.people)}
Saved changes to this file apply to the next request:
  ${demo.config_file}

Ctrl-C here stops everything. The next start uses the same data.
`;
}

/** The clients to name when none is installed. */
const KNOWN: readonly InstalledClient[] = [
  { kind: 'messages', program: 'claude' },
  { kind: 'coding-cli', program: 'codex' },
  { kind: 'build-cli', program: 'grok' },
];

/** The command that sets up the first installed client, with the names of the others. */
function setUp({
  url,
  token,
  clients,
}: {
  readonly url: string;
  readonly token: string;
  readonly clients: readonly InstalledClient[];
}): string {
  const [first, ...others] = clients.length > 0 ? clients : KNOWN;
  const other = others.map(({ kind, program }) => `#    For ${program}, replace ${first!.kind} by ${kind}.\n`).join('');
  return `# 6. Set up ${first!.program}${clients.length > 0 ? '' : ', if it is installed'}: review the change and type y.
${other}#    To undo it, use these arguments: client remove ${first!.kind}
npx --yes ${clientPackageUrl(url)} client ${first!.kind} \\
  --model demo-large \\
  --api-key ${token}
`;
}

function signIn(public_url: string, people: readonly DemoPerson[]): string {
  const names = people.map(({ name, is }) => `#    ${name.padEnd(12)}${is}`);
  return `
# 7. Sign in. Pick a user in your browser:
${names.join('\n')}
npx --yes ${clientPackageUrl(public_url)} login
`;
}
