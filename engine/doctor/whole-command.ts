import { quoteForSh } from '../client-files/key-helper.ts';
import type { ClientKind } from './desk.ts';

/** What a command that sets a client up has to be told. */
interface CommandFacts {
  readonly client: ClientKind;
  readonly root_url: string | undefined;
  readonly model: string | undefined;
  /** The file with the names of the client; without it files would be written that the client does not read. */
  readonly profile: string | undefined;
}

/** The command as remedies name it, up to its first option. */
const COMMAND = /appscli client(?: (?:messages|coding-cli|build-cli))?(?=$|[ :;,])/;

/** Values that stand for what is not known. */
const EXAMPLE = /(--base-url) https:\/\/gateway\.example\.com|(--model) MODEL/g;

/** A remedy that names the command to set a client up, with all that makes the command work as it stands; others stay as they are. */
export function withWholeCommand(remedy: string, { client, root_url, model, profile }: CommandFacts): string {
  const options = {
    '--base-url': root_url,
    '--model': client === 'messages' ? undefined : model,
    '--profile': profile,
  };
  const known = Object.entries(options).flatMap(([option, value]) =>
    value === undefined ? [] : [{ option, value: quoteForSh(value) }],
  );
  // Where a remedy has an option, it has an example for its value, or one that is meant.
  const told = remedy.replace(EXAMPLE, (whole, base_url, model) => {
    const value = known.find((each) => each.option === (base_url ?? model))?.value;
    return value === undefined ? whole : `${base_url ?? model} ${value}`;
  });
  const missing = known.flatMap(({ option, value }) => (remedy.includes(option) ? [] : [` ${option} ${value}`]));
  return told.replace(COMMAND, () => `appscli client ${client}${missing.join('')}`);
}
