import { CopyBlock } from './copy.tsx';

/** How each client is set up for this gateway: commands to copy, which ask for the token or have its variable named. */
export function ClientSetup({ base_url, model }: { base_url: string; model: string }) {
  const command = (client: string) =>
    `npx appscli client ${client} --base-url ${quoted(base_url)} --model ${quoted(model)}`;
  const clients = [
    { title: 'Messages client', text: `eval "$(${command('messages')} --api-key-env GATEWAY_TOKEN)"` },
    { title: 'Build CLI', text: `${command('build-cli')} --api-key-env GATEWAY_TOKEN` },
    { title: 'Coding CLI', text: command('coding-cli') },
  ];
  return (
    <div className="client-setup">
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
