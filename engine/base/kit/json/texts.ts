import type { WantedTexts } from '../../contract/request-body.ts';
import type { ByteRange } from './elements.ts';
import { keyText } from './key-names.ts';
import { CLOSE_BRACE, CLOSE_BRACKET, COLON, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE, stringEnd } from './tokens.ts';

/** A found string; its range includes the quotes. */
interface FoundText<T> extends ByteRange {
  readonly found: T;
  readonly text: string;
  /** The top-level key that contains it. */
  readonly top: string;
}

const STEP_BYTES = 1024 * 1024;

interface Container<T> {
  readonly is_object: boolean;
  readonly wanted: WantedTexts<T> | undefined;
}

/** Finds strings in valid JSON, in order, including those of repeated keys. One linear pass; yields after each MiB. */
export function* textsIn<T>(bytes: Buffer, wanted: WantedTexts<T>): Generator<undefined, FoundText<T>[]> {
  const texts: FoundText<T>[] = [];
  const above: Container<T>[] = [];
  let open: Container<T> = { is_object: false, wanted };
  let is_key = false;
  let member: ReturnType<WantedTexts<T>['keys']['get']>;
  let top = '';
  let next_step = STEP_BYTES;
  for (let i = 0; i < bytes.length; i++) {
    if (i >= next_step) {
      next_step = i + STEP_BYTES;
      yield;
    }
    switch (bytes[i]) {
      case QUOTE: {
        const end = stringEnd(bytes, i);
        if (is_key) {
          const key = open.wanted && keyText(bytes, i + 1, end);
          member = key === undefined ? undefined : open.wanted!.keys.get(key);
          if (above.length === 1) top = key ?? '';
        } else if (member?.found !== undefined) {
          const text = keyText(bytes, i + 1, end) ?? '';
          texts.push({ start: i, end: end + 1, found: member.found, text, top });
        }
        i = end;
        break;
      }
      case OPEN_BRACE:
      case OPEN_BRACKET: {
        above.push(open);
        const is_object = bytes[i] === OPEN_BRACE;
        open = { is_object, wanted: open.is_object ? member?.within : open.wanted };
        is_key = is_object;
        member = undefined;
        break;
      }
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        open = above.pop() ?? open;
        is_key = false;
        member = undefined;
        break;
      case COMMA:
        is_key = open.is_object;
        member = undefined;
        break;
      case COLON:
        is_key = false;
        break;
    }
  }
  return texts;
}
