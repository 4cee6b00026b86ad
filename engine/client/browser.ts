import { spawn } from 'node:child_process';

/** Whether a browser that this process opens would appear before the person who runs it. */
export function hasBrowser(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): boolean {
  const set = (name: string) => (env[name] ?? '') !== '';
  if (set('SSH_CONNECTION') || set('SSH_CLIENT') || set('SSH_TTY')) return false;
  // Without a display xdg-open takes the terminal for a browser that shows text.
  return platform === 'darwin' || platform === 'win32' || set('DISPLAY') || set('WAYLAND_DISPLAY');
}

const OPENERS: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ['open'],
  // Not "start": that is a word of the shell, which would also read the address.
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Opens a page in the person's browser, without a shell. That it fails makes no difference: the address is shown as well. */
export function openBrowser(url: string, platform: NodeJS.Platform = process.platform): void {
  const [program = 'xdg-open', ...before] = OPENERS[platform] ?? ['xdg-open'];
  const opener = spawn(program, [...before, url], { stdio: 'ignore', detached: true });
  opener.on('error', () => {});
  opener.unref();
}
