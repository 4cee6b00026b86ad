/** Path of the package with the commands for developers, which a gateway serves without a sign-in. */
export const CLIENT_PACKAGE_PATH = '/client.tgz';

/** The URL of the package. npx takes it as it is, and asks no registry. */
export function clientPackageUrl(public_url: string): string {
  return `${public_url.replace(/\/+$/, '')}${CLIENT_PACKAGE_PATH}`;
}

/** A command for developers, as they type it without having installed anything: `words` is such as `login`. */
export function clientCommand(public_url: string, words: string): string {
  return `npx --yes ${clientPackageUrl(public_url)} ${words}`;
}
