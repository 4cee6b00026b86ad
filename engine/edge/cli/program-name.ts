import { clientPackageUrl } from '../../base/contract/client-package.ts';
import { printableLines } from '../../base/kit/text/printable.ts';
import type { Terminal } from './terminal.ts';

type From = Pick<Terminal, 'gateway'>;

/** The commands of the package that gateways serve; all others are the operators', who have `appscli` itself. */
const COMMAND = /(?<![\w./-])appscli(?=\s+(?:login|logout|token|whoami|usage|models|client|doctor)\b)/g;

/** The gateway that texts have where they know none. */
const EXAMPLE = 'https://gateway.example.com';

/** How a person calls this program on this machine: by the address of the gateway that it was downloaded from, if it was. */
export function programName({ gateway }: From): string {
  return gateway === undefined ? 'appscli' : `npx --yes ${clientPackageUrl(gateway)}`;
}

/**
 * Help, a hint or an error with commands that a person can paste on this machine. Not for what stands in files, which must stay as
 * it is.
 */
export function hint(terminal: From, text: string): string {
  const { gateway } = terminal;
  if (gateway === undefined) return text;
  const named = text.replace(COMMAND, () => programName(terminal)).replaceAll(EXAMPLE, () => gateway);
  // The program knows that one by itself.
  return named.replace(/ --base-url (\S+?)(?=[\s"'`),;]|$)/gm, (option, address) =>
    address === gateway ? '' : option,
  );
}

/** Makes what tells a person something on the side. */
export function warner(terminal: Terminal): (message: string) => void {
  return (message) => terminal.info(printableLines([`appscli: ${hint(terminal, message)}`]));
}
