import { useSession } from '../api.ts';
import { CopyBlock } from './basic.tsx';
import { Part } from './page.tsx';

const CLIENTS = [
  { client: 'messages', title: 'Messages client', with_token: 'variables' },
  { client: 'build-cli', title: 'Build CLI', with_token: 'variable' },
  { client: 'coding-cli', title: 'Coding CLI', with_token: 'asks' },
] as const;

/**
 * Commands that set up each client for this gateway. With an access token, they read it from a variable or a prompt; with sign-in, the
 * client runs the gateway's program as key helper.
 */
export function ClientSetup({ model, credential }: { model: string; credential: 'access-token' | 'sign-in' }) {
  const { client_url, client_sha256, client_profile } = useSession();
  // npx runs the gateway's own package without a registry; the package contains the gateway's address.
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
          These commands write neutral names. For claude, codex and grok add <code>--profile shipped</code>, or ask your
          administrator to set <code>server.profile: shipped</code>.
        </p>
      )}
      {credential === 'sign-in' ? (
        <Part title="First, sign in">
          <p className="soft small">Run this in a shell with Node.js 20 or later. It opens your browser.</p>
          <CopyBlock label="Command that signs in" text={`${program} login`} />
        </Part>
      ) : (
        <Part title="First, the token">
          <p className="soft small">
            Run this in a shell, paste the token and press Enter. Not needed for the coding CLI.
          </p>
          {/* Reads the token without echo, so that it is not in the shell history. */}
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
            Downloads it and compares its SHA-256. Then use <code>./client.tgz</code> in place of the URL.
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
