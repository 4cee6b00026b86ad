import type { ResponseEvent } from '../api.ts';
import { readChatUsage } from './chat.ts';
import { readMessagesUsage } from './messages.ts';
import type { UsageReading } from './reading.ts';
import { readResponsesUsage } from './responses.ts';

/** Takes in one event, or one document, that the upstream sent. Malformed ones tell nothing. */
export type UsageReader = (reading: UsageReading, event: ResponseEvent) => void;

/** Reads usage as it is told in the API that the upstream was asked in; where it is not known, in Messages. */
export function usageReader(protocol: string | undefined): UsageReader {
  switch (protocol) {
    case 'chat':
      return readChatUsage;
    case 'responses':
      return readResponsesUsage;
    default:
      return readMessagesUsage;
  }
}
