import type { ResponseEvent } from '../../contract/stage.ts';
import { readChatUsage } from '../chat/reported-usage.ts';
import { readMessagesUsage } from '../messages/reported-usage.ts';
import { readResponsesUsage } from '../responses/reported-usage.ts';
import type { UsageReading } from './reading.ts';

/** Takes in one event, or one document, that the upstream sent. Malformed ones tell nothing. */
export type UsageReader = (reading: UsageReading, event: ResponseEvent) => void;

function ofOutline(read: UsageReader): UsageReader {
  return (reading, event) => {
    const { name, large } = event;
    read(reading, large === undefined ? event : { name, data: large.outline });
  };
}

const readChat = ofOutline(readChatUsage);
const readResponses = ofOutline(readResponsesUsage);
const readMessages = ofOutline(readMessagesUsage);

/** Reads usage as it is told in the API that the upstream was asked in; where it is not known, in Messages. */
export function usageReader(protocol: string | undefined): UsageReader {
  switch (protocol) {
    case 'chat':
      return readChat;
    case 'responses':
      return readResponses;
    default:
      return readMessages;
  }
}
