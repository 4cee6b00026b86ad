/** Shared parts of spool tests: a ledger that can be away, dead processes, a failing disk. */

import type { FileHandle } from 'node:fs/promises';
import * as file_system from 'node:fs/promises';
import {
  type CounterName,
  type Ledger,
  type Reservation,
  type ReservationRequest,
  type Settlement,
  StageError,
} from '../../engine/api.ts';
import { type GatewayProcess, ownProcess } from '../../engine/base/kit/process/gateway-process.ts';
import type { Disk } from '../../engine/base/store/spool-files.ts';
import { BookedReservation, type Books } from '../../engine/domain/budget/ledger/reservation.ts';
import type { LedgerOfRows } from '../../engine/domain/budget/spool/spooling-ledger.ts';

/** A row as it reached the ledger. */
export interface WrittenRow {
  readonly settlement: Settlement;
  readonly counters: readonly CounterName[];
  readonly at_ms: number;
}

/** A ledger in memory, and its calls. */
export interface FakeLedger extends LedgerOfRows, Books {
  /** The error that everything fails with, while there is one. */
  failure: Error | undefined;
  readonly rows: Map<string, WrittenRow>;
  /** How often a duplicate row arrived. */
  repeated: number;
  readonly reserved: ReservationRequest[];
  readonly settled: Settlement[];
  readonly released: string[];
  readonly topped_up: string[];
  readonly kept: Set<string>;
  /** Runs before the response to a reservation. */
  onReserve: () => Promise<void>;
  /** Which database it plays. */
  database_id: string;
}

/** A ledger whose reservations are ended by the ids of their requests, for tests with many of them. */
export function byRequest<L extends Ledger>(ledger: L): L & Books {
  const reservations = new Map<string, Reservation>();
  const own: Pick<Ledger, 'reserve'> & Books = {
    async reserve(request) {
      const decision = await ledger.reserve(request);
      if (decision.reservation !== undefined) reservations.set(request.request_id, decision.reservation);
      return decision;
    },
    topUp: (request_id, amount) => reservations.get(request_id)?.topUp(amount),
    move: (request, attempts) => reservations.get(request.request_id)!.move(request, attempts),
    settle: (entry) => (reservations.get(entry.request_id) ?? ledger.unreserved(entry)).settle(entry),
    release: async (request_id) => reservations.get(request_id)?.release(),
  };
  return new Proxy(ledger, {
    get(target, name) {
      const value = Reflect.get(name in own ? own : target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  }) as L & Books;
}

/** A database, where it does not matter which. */
export const SOME_DATABASE = '2f6f3a52-0f4e-4a8e-9d68-6d2f6a1c9b01';

/** The error of an unreachable database. */
export function away(): StageError {
  return new StageError('store_unavailable', 'The gateway cannot use its database: gone. Try again shortly.');
}

/** Creates a ledger that grants everything. */
export function fakeLedger(): FakeLedger {
  const ledger: FakeLedger = {
    failure: undefined,
    rows: new Map(),
    repeated: 0,
    reserved: [],
    settled: [],
    released: [],
    topped_up: [],
    kept: new Set(),
    onReserve: async () => {},
    database_id: SOME_DATABASE,
    async reserve(request) {
      ledger.reserved.push(request);
      await ledger.onReserve();
      if (ledger.failure !== undefined) throw ledger.failure;
      const reservation = new BookedReservation(ledger, request, true);
      return { reservation, exceeded: [], shadows: [], statuses: [], unreserved: false };
    },
    unreserved: (identity) => new BookedReservation(ledger, identity, false),
    topUp: (request_id) => void ledger.topped_up.push(request_id),
    move: async () => ({ exceeded: [], shadows: [], statuses: [] }),
    async settle(settlement) {
      ledger.settled.push(settlement);
    },
    async release(request_id) {
      ledger.released.push(request_id);
    },
    typicalCost: () => 7,
    statuses: async () => [],
    databaseId: async () => ledger.database_id,
    async settleAt(settlement, counters, at_ms, database_id) {
      if (ledger.failure !== undefined) throw ledger.failure;
      if (database_id !== ledger.database_id) throw Object.assign(new Error('another database'), { code: 'GW001' });
      const is_new = !ledger.rows.has(settlement.request_id);
      if (is_new) ledger.rows.set(settlement.request_id, { settlement, counters, at_ms });
      else ledger.repeated++;
      return is_new;
    },
    keep: (request_id) => void ledger.kept.add(request_id),
    forget: (request_id) => void ledger.kept.delete(request_id),
  };
  return ledger;
}

let processes = 0;

/** A process of this machine, or of another one, that does not run any more. */
export function deadProcess(machine = ownProcess().machine): GatewayProcess {
  return { machine, identity: `99999999-${++processes}` };
}

/** Something to be done to the disk: nothing, a failure, or a write that ends after some of its bytes. */
export type Fault = (
  operation: string,
  path: string,
  to?: string,
) => { readonly error: Error; readonly bytes?: number } | undefined;

const FAULTY = ['mkdir', 'unlink', 'rename', 'appendFile', 'open', 'datasync', 'sync', 'truncate'];

/** The methods of an object, except for `fault`; `path` is the first argument of those of the file system. */
function failing<T extends object>(target: T, fault: Fault, path?: string): T {
  return new Proxy(target, {
    get(_, name: string) {
      const method = Reflect.get(target, name);
      if (typeof method !== 'function') return method;
      return async (...input: string[]) => {
        const to = name === 'rename' ? input[1] : undefined;
        const found = FAULTY.includes(name) ? fault(name, path ?? input[0]!, to) : undefined;
        if (found !== undefined) throw found.error;
        const result = await method.apply(target, input);
        return name === 'open' ? faultyHandle(result, input[0]!, fault) : result;
      };
    },
  });
}

/** The real file system, except for `fault`. */
export const faultyDisk = (fault: Fault): Disk => failing({ ...file_system } as Disk, fault);

function faultyHandle(handle: FileHandle, path: string, fault: Fault): FileHandle {
  const write = async (bytes: Buffer, offset: number, length: number, position: number) => {
    const found = fault('write', path);
    if (found === undefined) return handle.write(bytes, offset, length, position);
    if (found.bytes) await handle.write(bytes, offset, Math.min(found.bytes, length), position);
    throw found.error;
  };
  const { datasync, sync, truncate, read, close } = failing(handle, fault, path);
  return { datasync, sync, truncate, read, close, write } as FileHandle;
}

/** An error of the file system. */
export function diskError(code: string): Error {
  return Object.assign(new Error(`${code}: as the test wants it`), { code });
}
