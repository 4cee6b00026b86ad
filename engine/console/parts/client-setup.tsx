import { useSession } from '../api.ts';
import { CopyBlock } from './basic.tsx';

// Asked for without being shown, and never in the history of the shell.
const KEEP_TOKEN = 'read -rs GATEWAY_TOKEN && export GATEWAY_TOKEN';

/**
 * How each client is set up for this gateway: commands to copy. With an access token they ask for it or have its variable named; by
 * sign-in the client runs the gateway's program for its token.
 */
export function ClientSetup({
  base_url,
  model,
  credential,
}: {
  base_url: string;
  model: string;
  credential: 'access-token' | 'sign-in';
}) {
  const { client_sha256, client_profile } = useSession();
  // The program is the gateway's own, which npx runs without asking a registry, and it knows where it is from.
  const file = `${base_url}/client.tgz`;
  const program = `npx --yes ${quoted(file)}`;
  const command = (client: string) => `${program} client ${client} --model ${quoted(model)}`;
  const clients =
    credential === 'sign-in'
      ? [
          { title: 'Messages client', text: `${command('messages')} --key-helper` },
          { title: 'Build CLI', text: `${command('build-cli')} --key-helper` },
          { title: 'Coding CLI', text: `${command('coding-cli')} --key-helper` },
        ]
      : [
          { title: 'Messages client', text: `eval "$(${command('messages')} --api-key-env GATEWAY_TOKEN)"` },
          { title: 'Build CLI', text: `${command('build-cli')} --api-key-env GATEWAY_TOKEN` },
          { title: 'Coding CLI', text: command('coding-cli') },
        ];
  return (
    <div className="client-setup stack">
      {client_profile === null && (
        <p className="soft small">
          These commands write neutral names, which claude, codex and grok do not read. For those add{' '}
          <code>--profile shipped</code>, or have your administrator set <code>server.profile: shipped</code>.
        </p>
      )}
      {credential === 'sign-in' ? (
        <section>
          <h3>First, sign in</h3>
          <p className="soft small">Run this in a shell. It takes Node.js 20 or later, and opens your browser.</p>
          <CopyBlock label="Command that signs in" text={`${program} login`} />
        </section>
      ) : (
        <section>
          <h3>First, the token</h3>
          <p className="soft small">
            Run this in a shell, paste the token and press Enter. The coding CLI needs no such thing.
          </p>
          <CopyBlock label="Command that asks for the token" text={KEEP_TOKEN} />
        </section>
      )}
      {clients.map(({ title, text }) => (
        <section key={title}>
          <h3>{title}</h3>
          <CopyBlock label={`Command that sets up the ${title}`} text={text} />
        </section>
      ))}
      {client_sha256 !== null && (
        <details>
          <summary>Check the program before you run it</summary>
          <p className="soft small">
            This downloads it and compares its SHA-256. Then write <code>./client.tgz</code> in place of the address.
          </p>
          <CopyBlock label="Command that checks the program" text={checkCommand(file, client_sha256)} />
        </details>
      )}
    </div>
  );
}

function checkCommand(file: string, sha256: string): string {
  return `curl -fsSLO ${quoted(file)} && echo '${sha256}  client.tgz' | sha256sum -c`;
}

function quoted(word: string): string {
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
