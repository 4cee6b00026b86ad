import type { Clock } from '../../contract/services.ts';
import type { Sent } from '../sent.ts';
import { type Collector, openCollector } from './collector.ts';
import { ExportQueue, type QueueEvents } from './export-queue.ts';
import { type Serializer, sendOtlp } from './otlp-sender.ts';
import type { QueueSettings } from './settings.ts';
import type { Target } from './targets.ts';

/** Where the spans or the log records of one configuration go. */
export interface QueueExport<Item> {
  readonly queue: ExportQueue<Item>;
  /** Sends what waits, for at most this long, and breaks off the rest. */
  close(patience_ms: number): Promise<void>;
}

/** What an export of one signal works with. */
interface QueueExportOptions<Item> {
  readonly settings: QueueSettings;
  readonly events: QueueEvents;
  readonly clock: Clock;
  /** Where the exporter is `console`. */
  readonly write: (item: Item) => void;
}

/** Opens the way of a signal to its collector. Raises Error where a file of the target cannot be used. */
export function openQueueExport<Item, Encodable>(
  target: Target,
  options: QueueExportOptions<Item> & {
    readonly serializer: Serializer<Encodable[]>;
    readonly encodable: (item: Item) => Encodable;
  },
): QueueExport<Item> {
  const { settings, events, clock, serializer, encodable } = options;
  const collector = openCollector(target);
  const send = (items: readonly Item[]) => sendOtlp(collector, serializer, () => items.map(encodable));
  return closing(new ExportQueue({ ...settings, room: settings.items_max, send, events, clock }), collector);
}

/** Writes a signal for who tries things out, in the place of sending it. */
export function openConsoleExport<Item>({
  settings,
  events,
  clock,
  write,
}: QueueExportOptions<Item>): QueueExport<Item> {
  const send = async (items: readonly Item[]): Promise<Sent> => {
    let rejected = 0;
    for (const item of items) {
      try {
        write(item);
      } catch {
        rejected++;
      }
    }
    return { outcome: 'taken', rejected };
  };
  return closing(new ExportQueue({ ...settings, room: settings.items_max, send, events, clock }));
}

function closing<Item>(queue: ExportQueue<Item>, collector?: Collector): QueueExport<Item> {
  return {
    queue,
    async close(patience_ms) {
      await queue.close(patience_ms);
      collector?.close();
    },
  };
}
