/** Path of the npm package with the developer commands; the gateway serves it without sign-in. */
export const CLIENT_PACKAGE_PATH = '/client.tgz';

/** The URL of the package; npx installs it without a registry. */
export function clientPackageUrl(public_url: string): string {
  return `${public_url.replace(/\/+$/, '')}${CLIENT_PACKAGE_PATH}`;
}

/** The npx command line for a developer command, such as `login`. */
export function clientCommand(public_url: string, words: string): string {
  return `npx --yes ${clientPackageUrl(public_url)} ${words}`;
}
