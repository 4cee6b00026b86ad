import { isUtf8 } from 'node:buffer';
import { StringDecoder } from 'node:string_decoder';
import { StageError } from '../../contract/errors.ts';
import type { ResponseConverter } from '../../contract/stage.ts';
import { isEventStream, isJson, mediaType } from '../../kit/media-type.ts';
import { printableWord } from '../../kit/text/printable.ts';
import { collectDocument, HELD_BYTES_MAX } from '../collect-document.ts';
import type { AnswerRewriter } from './answer-rewriter.ts';

function tooLong(): StageError {
  const problem = `The upstream's answer has more than ${HELD_BYTES_MAX} bytes in one piece, which is too much to be rewritten.`;
  return new StageError('upstream_invalid', problem);
}

/** Splits a stream into its events. Lines of any of the three kinds end them; what is held is linear in what has come. */
class EventSplitter {
  readonly #onEvent: (lines: readonly string[]) => string;
  readonly #decoder = new StringDecoder('utf8');
  #line: string[] = [];
  #lines: string[] = [];
  #size = 0;
  #after_return = false;
  #has_begun = false;

  /** @param onEvent takes the lines of an event, and returns what stands for it */
  constructor(onEvent: (lines: readonly string[]) => string) {
    this.#onEvent = onEvent;
  }

  write(chunk: Buffer): string {
    return this.#take(this.#decoder.write(chunk));
  }

  end(): string {
    const rest = this.#take(this.#decoder.end());
    // Some servers leave out the blank line after their last event.
    return rest + this.#endLine() + this.#endLine();
  }

  /** Forgets the event that has begun. */
  drop(): void {
    this.#line = [];
    this.#lines = [];
  }

  #take(text: string): string {
    let out = '';
    // Clients leave out a byte order mark, and what stands behind it is an event to them.
    let start = !this.#has_begun && text.startsWith('\uFEFF') ? 1 : 0;
    this.#has_begun ||= text !== '';
    for (let i = start; i < text.length; i++) {
      const char = text[i];
      if (char !== '\n' && char !== '\r') {
        this.#after_return = false;
        continue;
      }
      const is_second = char === '\n' && this.#after_return;
      this.#after_return = char === '\r';
      if (!is_second) {
        this.#line.push(text.slice(start, i));
        out += this.#endLine();
      }
      start = i + 1;
    }
    if (start < text.length) this.#line.push(text.slice(start));
    this.#size += text.length;
    if (this.#size > HELD_BYTES_MAX) throw tooLong();
    return out;
  }

  #endLine(): string {
    const line = this.#line.join('');
    this.#line = [];
    if (line !== '') {
      this.#lines.push(line);
      return '';
    }
    this.#size = 0;
    if (this.#lines.length === 0) return '';
    const lines = this.#lines;
    this.#lines = [];
    return this.#onEvent(lines);
  }
}

const FIELD = /^([a-z]+)(?::[ ]?(.*))?$/s;

function fieldOf(line: string): readonly [name: string, value: string] {
  const [, name = '', value = ''] = FIELD.exec(line) ?? [];
  return [name, value];
}

function eventText(lines: readonly string[], data: string): string {
  const said = data.split('\n').map((line) => `data: ${line}`);
  return `${[...lines, ...said].join('\n')}\n\n`;
}

/** Rewrites a stream of events. Names and comments are looked through like any text. */
function rewriteEvents(rewriter: AnswerRewriter): ResponseConverter {
  const write = (events: ReturnType<AnswerRewriter['flush']>) =>
    events.map(({ name, data }) => eventText(name === undefined ? [] : [`event: ${name}`], data)).join('');
  const splitter = new EventSplitter((received) => {
    const lines = received.map((line) => (fieldOf(line)[0] === 'data' ? line : rewriter.line(line)));
    const pieces = lines.filter((line) => fieldOf(line)[0] === 'data').map((line) => fieldOf(line)[1]);
    if (pieces.length === 0) return `${lines.join('\n')}\n\n`;
    const others = lines.filter((line) => fieldOf(line)[0] !== 'data');
    const name = others.map(fieldOf).findLast(([field]) => field === 'event')?.[1];
    const data = pieces.join('\n');
    const events = rewriter.event(name, data);
    const own = events.at(-1)!;
    const text = own.data === data ? `${lines.join('\n')}\n\n` : eventText(others, own.data);
    return write(events.slice(0, -1)) + text;
  });
  return {
    write: (chunk) => splitter.write(chunk),
    end: () => splitter.end() + write(rewriter.flush()),
    fail() {
      splitter.drop();
      rewriter.drop();
      return '';
    },
  };
}

/** Rewrites a document as a whole. */
function rewriteDocument(rewriter: AnswerRewriter): ResponseConverter {
  return collectDocument((bytes) => {
    if (!isUtf8(bytes))
      throw new StageError('upstream_invalid', 'The upstream answered with a text that is not in UTF-8.');
    const text = bytes.toString('utf8');
    const rewritten = rewriter.document(text);
    return rewritten === text ? bytes : rewritten;
  }, tooLong);
}

/**
 * Converts an answer of the client's protocol into one whose texts are rewritten. Raises upstream_invalid for what has no texts
 * that could be, such as an image, and for a stream of an API whose pieces of texts nobody knows: nothing passes that was not
 * looked through.
 */
export function rewriteAnswer(content_type: string | undefined, rewriter: AnswerRewriter): ResponseConverter {
  const type = mediaType(content_type);
  if (isEventStream(content_type)) {
    if (rewriter.reads_streams) return rewriteEvents(rewriter);
  } else if (type === '' || isJson(content_type) || type.startsWith('text/')) return rewriteDocument(rewriter);
  const problem = `The upstream answered with ${printableWord(type)}, whose texts cannot be rewritten.`;
  throw new StageError('upstream_invalid', problem);
}
