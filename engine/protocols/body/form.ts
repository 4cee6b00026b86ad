/** Forms with files (RFC 7578), read strictly: nothing in them may be read another way by whoever gets the same bytes. */
import { StageError } from '../../contract/errors.ts';

/** A field of a form. */
export interface FormPart {
  readonly name: string;
  /** Whether it is a file. */
  readonly is_file: boolean;
  readonly content: Buffer;
}

const PARTS_MAX = 1000;
const HEAD_BYTES_MAX = 8192;

/** The characters of boundaries (RFC 2046 section 5.1.1), without the space. */
const CONTENT_TYPE = /^multipart\/form-data\s*;\s*boundary=(?:"([\w'()+,./:=?-]{1,70})"|([\w'+.-]{1,70}))\s*$/i;

/** Names are quoted and have nothing in them that is read in several ways. */
const DISPOSITION =
  /^content-disposition: *form-data; *name="([^"\\\r\n]{1,200})"(?:; *filename="([^"\r\n]*)")?(; *filename\*=[^;\r\n]+)?$/i;

/** An encoding that only some servers decode would make two texts of one. */
const HEADER = /^(?:(?:content-type|content-length): *[^\r\n]*|content-transfer-encoding: *(?:7bit|8bit|binary) *)$/i;

function malformed(what: string): StageError {
  return new StageError('invalid_request', `The form in the request body cannot be read: ${what}.`);
}

/** The parts of a form. Raises invalid_request for one that two programs might read in two ways. */
export function readForm(content_type: string, body: Buffer): readonly FormPart[] {
  const [, quoted, plain] = CONTENT_TYPE.exec(content_type) ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) throw malformed('its content-type must be multipart/form-data with one boundary');
  const first = Buffer.from(`--${boundary}`, 'latin1');
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  if (!body.subarray(0, first.length).equals(first)) throw malformed('it must begin with its boundary');
  // There are servers that take any line break for one.
  const lenient = ['\n', '\r'].map((end) => Buffer.from(`${end}--${boundary}`, 'latin1'));
  const parts: FormPart[] = [];
  let at = first.length;
  for (;;) {
    const next = body.toString('latin1', at, at + 2);
    if (next === '--') return ending(body, at + 2, parts);
    if (next !== '\r\n') throw malformed('a boundary must be followed by a line break');
    if (parts.length === PARTS_MAX) throw malformed(`it has more than ${PARTS_MAX} parts`);
    const end = body.indexOf(delimiter, at);
    if (end < 0) throw malformed('its last boundary is missing');
    const part = body.subarray(at + 2, end);
    if (lenient.some((text) => part.includes(text))) throw malformed('a line of a part begins with its boundary');
    parts.push(readPart(part));
    at = end + delimiter.length;
  }
}

/** What stands behind the last boundary is for nobody, and would be for somebody who reads on. */
function ending(body: Buffer, at: number, parts: readonly FormPart[]): readonly FormPart[] {
  const rest = body.toString('latin1', at, at + 3);
  if (rest !== '' && rest !== '\r\n') throw malformed('something follows its last boundary');
  return parts;
}

function readPart(part: Buffer): FormPart {
  const end = part.subarray(0, HEAD_BYTES_MAX).indexOf('\r\n\r\n');
  if (end < 0) throw malformed('the headers of a part have no end');
  const [disposition, ...more] = part.toString('utf8', 0, end).split('\r\n').toSorted(dispositionFirst);
  const [, name, filename, extended] = DISPOSITION.exec(disposition ?? '') ?? [];
  if (name === undefined) throw malformed('every part needs a content-disposition with a quoted name');
  if (!more.every((line) => HEADER.test(line))) throw malformed('a part has a header that no form has');
  return { name, is_file: filename !== undefined || extended !== undefined, content: part.subarray(end + 4) };
}

function dispositionFirst(a: string, b: string): number {
  const place = (line: string) => (/^content-disposition:/i.test(line) ? 0 : 1);
  return place(a) - place(b);
}
