import { clientPackageUrl } from '../../base/contract/client-package.ts';
import { printableLines } from '../../base/kit/text/printable.ts';
import type { Terminal } from './terminal.ts';

type From = Pick<Terminal, 'gateway'>;

/** The commands of the package that gateways serve; operators run all others with `appscli`. */
const COMMAND = /(?<![\w./-])appscli(?=\s+(?:login|logout|token|whoami|usage|models|client|doctor)\b)/g;

/** Placeholder of a gateway's address in texts. */
const EXAMPLE = 'https://gateway.example.com';

/** How to run this program: `appscli`, or npx with the address of the gateway that served it. */
export function programName({ gateway }: From): string {
  return gateway === undefined ? 'appscli' : `npx --yes ${clientPackageUrl(gateway)}`;
}

/**
 * Rewrites the commands in a help text, hint or error so that they can be pasted on this machine. Not for content of files.
 */
export function hint(terminal: From, text: string): string {
  const { gateway } = terminal;
  if (gateway === undefined) return text;
  const named = text.replace(COMMAND, () => programName(terminal)).replaceAll(EXAMPLE, () => gateway);
  // The gateway that served the program is its default.
  return named.replace(/ --base-url (\S+?)(?=[\s"'`),;]|$)/gm, (option, address) =>
    address === gateway ? '' : option,
  );
}

/** Makes a function that prints warnings. */
export function warner(terminal: Terminal): (message: string) => void {
  return (message) => terminal.info(printableLines([`appscli: ${hint(terminal, message)}`]));
}
