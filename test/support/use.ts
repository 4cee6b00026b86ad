import { after, before } from 'node:test';

const open_now: (() => unknown)[] = [];

/**
 * Opens something before the tests of a file or suite, and closes it after them, what was opened last first. The returned object
 * stands for it, and may be used as soon as it is open.
 */
export function use<T extends object>(open: () => T | Promise<T>, close: (opened: T) => unknown = closeIt): T {
  let opened: T | undefined;
  const end = () => close(opened!);
  before(async () => {
    opened = await open();
    open_now.push(end);
  });
  // Hooks run in the order in which they were given, and none after one that failed.
  after(async () => {
    if (!open_now.includes(end)) return;
    const ends = open_now.splice(open_now.indexOf(end)).toReversed();
    const failed: unknown[] = [];
    for (const each of ends) {
      try {
        await each();
      } catch (error) {
        failed.push(error);
      }
    }
    if (failed.length > 0) throw failed[0];
  });
  return standIn(() => opened);
}

/** Has something closed before what `use` opened until now. */
export function alsoClose<T extends { close(): unknown }>(opened: T): T {
  open_now.push(() => opened.close());
  return opened;
}

/** Something that `await using` closes at the end of its block. */
export function closing<T extends { close(): unknown }>(opened: T): T & { [Symbol.asyncDispose](): Promise<void> } {
  return Object.assign(opened, { [Symbol.asyncDispose]: async () => void (await opened.close()) });
}

function closeIt(opened: object): unknown {
  return (opened as { close(): unknown }).close();
}

/** An object that stands for another, which exists only later. */
export function standIn<T extends object>(get: () => T | undefined): T {
  const now = (): T => {
    const found = get();
    if (found === undefined) throw new Error('it is opened before the first test, and not open yet');
    return found;
  };
  return new Proxy({} as T, {
    get(_, key) {
      const value = Reflect.get(now(), key);
      // A method of a class may need its private fields.
      return typeof value === 'function' && !Object.hasOwn(now(), key) ? value.bind(now()) : value;
    },
    set: (_, key, value) => Reflect.set(now(), key, value),
    has: (_, key) => Reflect.has(now(), key),
    ownKeys: () => Reflect.ownKeys(now()),
    getOwnPropertyDescriptor(_, key) {
      const found = Reflect.getOwnPropertyDescriptor(now(), key);
      return found && { ...found, configurable: true };
    },
    getPrototypeOf: () => Reflect.getPrototypeOf(now()),
  });
}
