import { hostname, userInfo } from 'node:os';
import type { Actor } from '../audit/admin-changes.ts';
import { printable } from '../kit/text/printable.ts';

const MAX_CHARS = 200;

/** Whoever runs this command, as the list of changes names them: account and host. */
export function operator(): Actor {
  return { kind: 'command', name: printable(`${account()}@${hostname()}`).slice(0, MAX_CHARS) };
}

function account(): string {
  try {
    return userInfo().username;
  } catch {
    // An account without a name, as in many containers.
    return `uid-${process.getuid?.() ?? 'unknown'}`;
  }
}
