import type { ResponseEvent } from '../../contract/stage.ts';
import type { UsageReading } from './reading.ts';

/** Takes in one event, or one document, that the upstream sent. Malformed ones tell nothing. */
export type UsageReader = (reading: UsageReading, event: ResponseEvent) => void;

/** Lets a reader see the outline of an event that is too large to be read. */
export function ofOutline(read: UsageReader): UsageReader {
  return (reading, event) => {
    const { name, large } = event;
    read(reading, large === undefined ? event : { name, data: large.outline });
  };
}
