import { useSession } from '../api.ts';
import { CopyBlock, Part } from './basic.tsx';

const CLIENTS = [
  { client: 'messages', title: 'Messages client', with_token: 'variables' },
  { client: 'build-cli', title: 'Build CLI', with_token: 'variable' },
  { client: 'coding-cli', title: 'Coding CLI', with_token: 'asks' },
] as const;

interface Setup {
  readonly model: string;
  readonly credential: 'access-token' | 'sign-in';
}

/**
 * How each client is set up for this gateway: commands to copy. With an access token they ask for it or have its variable named; by
 * sign-in the client runs the gateway's program for its token.
 */
export function ClientSetup({ model, credential }: Setup) {
  const { client_url, client_sha256, client_profile } = useSession();
  // The program is the gateway's own, which npx runs without asking a registry, and it knows where it is from.
  const program = `npx --yes ${quoted(client_url)}`;
  const commandOf = ({ client, with_token }: (typeof CLIENTS)[number]) => {
    const command = `${program} client ${client} --model ${quoted(model)}`;
    if (credential === 'sign-in') return `${command} --key-helper`;
    const named = `${command} --api-key-env GATEWAY_TOKEN`;
    return { variables: `eval "$(${named})"`, variable: named, asks: command }[with_token];
  };
  return (
    <div className="stack">
      {client_profile === null && (
        <p className="soft small">
          These commands write neutral names, which claude, codex and grok do not read. For those add{' '}
          <code>--profile shipped</code>, or have your administrator set <code>server.profile: shipped</code>.
        </p>
      )}
      {credential === 'sign-in' ? (
        <Part title="First, sign in">
          <p className="soft small">Run this in a shell. It takes Node.js 20 or later, and opens your browser.</p>
          <CopyBlock label="Command that signs in" text={`${program} login`} />
        </Part>
      ) : (
        <Part title="First, the token">
          <p className="soft small">
            Run this in a shell, paste the token and press Enter. The coding CLI needs no such thing.
          </p>
          {/* Asked for without being shown, and never in the history of the shell. */}
          <CopyBlock label="Command that asks for the token" text="read -rs GATEWAY_TOKEN && export GATEWAY_TOKEN" />
        </Part>
      )}
      {CLIENTS.map((client) => (
        <Part key={client.title} title={client.title}>
          <CopyBlock label={`Command that sets up the ${client.title}`} text={commandOf(client)} />
        </Part>
      ))}
      {client_sha256 !== null && (
        <details>
          <summary>Check the program before you run it</summary>
          <p className="soft small">
            This downloads it and compares its SHA-256. Then write <code>./client.tgz</code> in place of the address.
          </p>
          <CopyBlock
            label="Command that checks the program"
            text={`curl -fsSLO ${quoted(client_url)} && echo '${client_sha256}  client.tgz' | sha256sum -c`}
          />
        </details>
      )}
    </div>
  );
}

function quoted(word: string): string {
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
