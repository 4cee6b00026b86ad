import { createHash } from 'node:crypto';
import type { SelfcheckArrived } from '../../contract/selfcheck-endpoint.ts';
import { printableLine } from '../../kit/text/printable.ts';

/** A request of which it is known what should arrive. */
export interface SentOnTheWay {
  /** With names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Without the question mark. */
  readonly query: string;
  readonly body: string;
}

/** Something that is not as it was sent. */
export interface Change {
  /** As a sentence without its full stop; safe to show. */
  readonly what: string;
  readonly remedy: string;
  /** Whether clients work with it all the same. */
  readonly harmless: boolean;
}

const SHOWN_LENGTH_MAX = 60;

/** What was changed between sender and gateway. */
export function changesOnTheWay(sent: SentOnTheWay, arrived: SelfcheckArrived): Change[] {
  const changes = Object.entries(sent.headers).flatMap(([name, value]) =>
    changeOfHeader(name, value, arrived.headers[name]),
  );
  if (arrived.query !== sent.query) {
    changes.push({
      what: `the query "${sent.query}" arrived as ${shown(arrived.query)}`,
      remedy: 'let the proxy pass the path and its query on as they are (nginx: proxy_pass without a path)',
      harmless: false,
    });
  }
  if (arrived.body.sha256 !== createHash('sha256').update(sent.body).digest('hex')) {
    const bytes = Buffer.byteLength(sent.body);
    changes.push({
      what: `the body was rewritten: ${bytes} bytes were sent, ${arrived.body.bytes} arrived${arrived.body.bytes === bytes ? ' and they differ' : ''}`,
      remedy: 'let the proxy, firewall or scanner on the way pass bodies below /v1/ on byte for byte',
      harmless: false,
    });
  }
  return changes;
}

function changeOfHeader(name: string, sent: string, arrived: string | undefined): Change[] {
  if (arrived === sent) return [];
  const harmless = name === 'user-agent';
  if (arrived === undefined) {
    const remedy = `let the proxy pass ${name} and headers that it does not know on to the gateway; look for a list of allowed headers`;
    return [{ what: `the header ${name} is taken off`, remedy, harmless }];
  }
  return [
    {
      what: `the header ${name} was sent as ${shown(sent)} and arrived as ${shown(arrived)}`,
      remedy: `let the proxy pass ${name} on as it is; look for where it sets that header`,
      harmless,
    },
  ];
}

function shown(text: string): string {
  const line = printableLine(text);
  return line.length <= SHOWN_LENGTH_MAX
    ? `"${line}"`
    : `"${line.slice(0, SHOWN_LENGTH_MAX)}..." (${text.length} characters)`;
}
