import { useSession } from '../frame/session-context.ts';
import { CopyBlock } from './copy.tsx';

// Asked for without being shown, and never in the history of the shell.
const KEEP_TOKEN = 'read -rs GATEWAY_TOKEN && export GATEWAY_TOKEN';

/** How each client is set up for this gateway: commands to copy, which ask for the token or have its variable named. */
export function ClientSetup({ base_url, model }: { base_url: string; model: string }) {
  const { client_profile } = useSession();
  const profile = client_profile === null ? '' : ` --profile ${quoted(client_profile)}`;
  const command = (client: string) =>
    `npx appscli client ${client}${profile} --base-url ${quoted(base_url)} --model ${quoted(model)}`;
  const clients = [
    { title: 'Messages client', text: `eval "$(${command('messages')} --api-key-env GATEWAY_TOKEN)"` },
    { title: 'Build CLI', text: `${command('build-cli')} --api-key-env GATEWAY_TOKEN` },
    { title: 'Coding CLI', text: command('coding-cli') },
  ];
  return (
    <div className="client-setup">
      {client_profile === null && (
        <p className="soft small">
          These commands write neutral names, which claude, codex and grok do not read. For those add{' '}
          <code>--profile shipped</code>, or have your administrator set <code>server.profile: shipped</code>.
        </p>
      )}
      <section>
        <h3>First, the token</h3>
        <p className="soft small">
          Run this in a shell, paste the token and press Enter. The coding CLI needs no such thing.
        </p>
        <CopyBlock label="Command that asks for the token" text={KEEP_TOKEN} />
      </section>
      {clients.map(({ title, text }) => (
        <section key={title}>
          <h3>{title}</h3>
          <CopyBlock label={`Command that sets up the ${title}`} text={text} />
        </section>
      ))}
    </div>
  );
}

/** A word that a shell takes as it is. */
function quoted(word: string): string {
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
