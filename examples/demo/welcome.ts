import { clientPackageUrl } from '../../engine/base/contract/client-package.ts';
import type { InstalledClient } from '../../engine/edge/cli/profiles.ts';
import type { DemoPerson } from './people.ts';

const WEEK = `What has the project demo-week is made up: a week of traffic to look at.

`;

/** What `npm start` prints when everything runs: 80 columns, commands that work when pasted into bash. */
export function welcome(demo: {
  readonly url: string;
  readonly upstream_url: string;
  readonly token: string;
  readonly config_file: string;
  /** Whether there is a week of traffic to look at. */
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
  const console_line = sign_in && `\n  Console    ${sign_in.public_url}/console  (sign in as Alice, who administers)`;
  const identity = sign_in && `\n  Identity   ${sign_in.provider_url}  (a mock for your company's)`;
  return `
The gateway is running.
${console_line ?? ''}
  Gateway    ${demo.url}
  Upstream   ${demo.upstream_url}  (a mock for a model provider)${identity ?? ''}
  Token      ${demo.token}

${has_week ? WEEK : ''}Commands to paste into another terminal, in this directory:

# 1. Ask something.
${ask('/v1/messages')}

# 2. Ask for a stream, and see it arrive word by word.
${ask('/v1/messages', '-N ', ' "stream": true,')}

# 3. Ask in chat completions, a protocol that this upstream does not speak.
${ask('/v1/chat/completions')}

# 4. See who spent what.
node_modules/.bin/appscli usage --config ${demo.config_file}

# 5. Check that the gateway does what coding clients need.
#    "node_modules/.bin/appscli doctor" checks the clients on your machine.
TOKEN=${demo.token} \\
  node_modules/.bin/appscli selfcheck --token-env TOKEN \\
  --base-url ${demo.url}

${setUp(demo)}${sign_in === undefined ? '' : signIn(sign_in.public_url, sign_in.people)}
Save a change to this file, and the next request follows it:
  ${demo.config_file}

Ctrl-C here stops everything. The next start finds its data.
`;
}

/** The clients that somebody without any of them may install. */
const KNOWN: readonly InstalledClient[] = [
  { kind: 'messages', program: 'claude' },
  { kind: 'coding-cli', program: 'codex' },
  { kind: 'build-cli', program: 'grok' },
];

/** The command that sets up the first client that is here, and what the others are called. */
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
  const other = others.map(({ kind, program }) => `#    For ${program} write ${kind}.\n`).join('');
  return `# 6. Work with ${first!.program}${clients.length > 0 ? '' : ', if it is installed'}: see the change, and say y.
${other}#    To undo it: write client remove ${first!.kind}, and nothing behind it.
npx --yes ${clientPackageUrl(url)} client ${first!.kind} \\
  --model demo-large \\
  --api-key ${token}
`;
}

function signIn(public_url: string, people: readonly DemoPerson[]): string {
  const names = people.map(({ name, is }) => `#    ${name.padEnd(12)}${is}`);
  return `
# 7. Sign in. Your browser asks who you are today:
${names.join('\n')}
npx --yes ${clientPackageUrl(public_url)} login
`;
}
