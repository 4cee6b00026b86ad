import type { Socket } from 'node:net';

/** Who uses a connection; kept with it, because a map of all connections would cost more. */
const OWNER = Symbol('owner');

type OwnedSocket = Socket & { [OWNER]?: string };

/** How many connections of clients there are, and of whom. */
export class Connections {
  #open = 0;
  readonly #by_owner = new Map<string, number>();

  /** How many there are. */
  get open(): number {
    return this.#open;
  }

  /** Counts a connection until it is closed. @returns false when there are more than `most` with it. */
  add(socket: Socket, most: number): boolean {
    this.#open++;
    socket.on('close', () => {
      this.#open--;
      this.#disown(socket);
    });
    return this.#open <= most;
  }

  /** Notes whose request a connection carries. @returns false when that caller has more than `most` connections with it. */
  claim(socket: OwnedSocket, owner: string, most: number): boolean {
    if (socket[OWNER] !== owner && !socket.destroyed) {
      this.#disown(socket);
      socket[OWNER] = owner;
      this.#by_owner.set(owner, (this.#by_owner.get(owner) ?? 0) + 1);
    }
    return (this.#by_owner.get(owner) ?? 0) <= most;
  }

  #disown(socket: OwnedSocket): void {
    const owner = socket[OWNER];
    if (owner === undefined) return;
    delete socket[OWNER];
    const count = this.#by_owner.get(owner)! - 1;
    if (count === 0) this.#by_owner.delete(owner);
    else this.#by_owner.set(owner, count);
  }
}
