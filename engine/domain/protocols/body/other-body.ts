import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import { StageError } from '../../../base/contract/errors.ts';
import { NO_MODEL } from '../../../base/contract/no-model.ts';
import type { RequestBody } from '../../../base/contract/stage.ts';
import { describeFault } from '../../../base/kit/json/faults.ts';
import { JsonScan } from '../../../base/kit/json/scan.ts';
import { jsonTypeProblem, mediaType } from '../../../base/kit/media-type.ts';
import { flagAt, invalid, isObject, jsonIn, kindOf, optional } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';
import { modelIn } from './fields.ts';
import { fieldRule, OTHER_KEYS } from './privileged-fields.ts';
import { type PrivilegedValue, parameterRule, readPrivileged } from './read-privileged.ts';

const MODEL = fieldRule('model', true)!;
const BOUNDS = { depth: 128, values: 500_000 };
const LINE_FEED = 0x0a;

/** Lines and bytes read per turn of the event loop. */
const LINES_AT_ONCE = 200;
const BYTES_AT_ONCE = 256 * 1024;

type Named = Map<string, PrivilegedValue>;

function addRequest(named: Named, request: unknown, param: string, isModel: (text: string) => boolean): void {
  if (!isObject(request)) throw invalid(param, 'must be the body of a request, as an object');
  const { model } = request;
  if (typeof model !== 'string' || model === '') throw invalid(`${param}.model`, 'must be the name of a model');
  const found = [{ param: 'model', rule: MODEL, value: model }, ...readPrivileged(request, isModel)];
  for (const value of found) {
    const key = `${value.rule.name} ${value.value === undefined ? '' : `=${value.value}`}`;
    if (!named.has(key)) named.set(key, { ...value, param: `${param}.${value.param}` });
  }
}

function readBatchRequests(requests: unknown, isModel: (text: string) => boolean): readonly PrivilegedValue[] {
  if (requests === undefined || requests === null) return [];
  if (!Array.isArray(requests)) throw invalid('requests', 'must be a list');
  const named: Named = new Map();
  for (const [index, request] of requests.entries()) {
    if (!isObject(request)) throw invalid(`requests[${index}]`, 'must be an object');
    addRequest(named, request.params, `requests[${index}].params`, isModel);
  }
  return [...named.values()];
}

async function readBatchFile(bytes: Buffer, isModel: (text: string) => boolean): Promise<readonly PrivilegedValue[]> {
  if (!isUtf8(bytes)) throw new StageError('invalid_encoding', 'The file of the batch is not valid UTF-8.');
  const named: Named = new Map();
  let line = 0;
  let paused_at = 0;
  for (let at = 0; at < bytes.length; ) {
    const found = bytes.indexOf(LINE_FEED, at);
    const end = found < 0 ? bytes.length : found;
    const param = `file line ${++line}`;
    const request = readLine(bytes.subarray(at, end), param);
    if (request !== undefined) addRequest(named, request.body, `${param}: body`, isModel);
    at = end + 1;
    if (line % LINES_AT_ONCE !== 0 && at - paused_at < BYTES_AT_ONCE) continue;
    paused_at = at;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return [...named.values()];
}

function readLine(line: Buffer, param: string): Json | undefined {
  if (line.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)) return undefined;
  const scan = new JsonScan(line, BOUNDS, { names: OTHER_KEYS });
  scan.step(line.length + 1);
  if (scan.fault !== undefined)
    throw new StageError('invalid_json', `${param} ${describeFault(scan.fault, line, BOUNDS)}.`);
  if (scan.ambiguous !== undefined) throw invalid(param, 'has a key that decides something twice, or in two spellings');
  const value = jsonIn(line.toString('utf8'));
  if (value === undefined) throw new StageError('invalid_json', `${param} is not JSON.`);
  if (!isObject(value)) throw invalid(param, 'must be an object');
  return value;
}

/** Forms with files (RFC 7578), parsed strictly: no other parser may read the same bytes differently. */

interface FormPart {
  readonly name: string;
  readonly is_file: boolean;
  readonly content: Buffer;
}

const PARTS_MAX = 1000;
const HEAD_BYTES_MAX = 8192;

/** The characters of boundaries (RFC 2046 section 5.1.1), without the space. */
const CONTENT_TYPE = /^multipart\/form-data\s*;\s*boundary=(?:"([\w'()+,./:=?-]{1,70})"|([\w'+.-]{1,70}))\s*$/i;

/** Names are quoted, without ambiguous characters. */
const DISPOSITION =
  /^content-disposition: *form-data; *name="([^"\\\r\n]{1,200})"(?:; *filename="([^"\r\n]*)")?(; *filename\*=[^;\r\n]+)?$/i;

/** No content-transfer-encoding that only some servers decode. */
const HEADER = /^(?:(?:content-type|content-length): *[^\r\n]*|content-transfer-encoding: *(?:7bit|8bit|binary) *)$/i;

function malformedError(what: string): StageError {
  return new StageError('invalid_request', `The form in the request body cannot be read: ${what}.`);
}

/** The parts of a form. Raises invalid_request for an ambiguous form. */
export function readForm(content_type: string, body: Buffer): readonly FormPart[] {
  const [, quoted, plain] = CONTENT_TYPE.exec(content_type) ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) throw malformedError('its content-type must be multipart/form-data with one boundary');
  const first = Buffer.from(`--${boundary}`, 'latin1');
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  if (!body.subarray(0, first.length).equals(first)) throw malformedError('it must begin with its boundary');
  // Some servers accept any line break.
  const lenient = ['\n', '\r'].map((end) => Buffer.from(`${end}--${boundary}`, 'latin1'));
  const parts: FormPart[] = [];
  let at = first.length;
  for (;;) {
    const next = body.toString('latin1', at, at + 2);
    if (next === '--') return ending(body, at + 2, parts);
    if (next !== '\r\n') throw malformedError('a boundary must be followed by a line break');
    if (parts.length === PARTS_MAX) throw malformedError(`it has more than ${PARTS_MAX} parts`);
    const end = body.indexOf(delimiter, at);
    if (end < 0) throw malformedError('its last boundary is missing');
    const part = body.subarray(at + 2, end);
    if (lenient.some((text) => part.includes(text))) throw malformedError('a line of a part begins with its boundary');
    parts.push(readPart(part));
    at = end + delimiter.length;
  }
}

/** Checks that nothing follows the last boundary, because some servers would read it. */
function ending(body: Buffer, at: number, parts: readonly FormPart[]): readonly FormPart[] {
  const rest = body.toString('latin1', at, at + 3);
  if (rest !== '' && rest !== '\r\n') throw malformedError('something follows its last boundary');
  return parts;
}

function readPart(part: Buffer): FormPart {
  const end = part.subarray(0, HEAD_BYTES_MAX).indexOf('\r\n\r\n');
  if (end < 0) throw malformedError('the headers of a part have no end');
  const [disposition, ...more] = part.toString('utf8', 0, end).split('\r\n').toSorted(dispositionFirst);
  const [, name, filename, extended] = DISPOSITION.exec(disposition ?? '') ?? [];
  if (name === undefined) throw malformedError('every part needs a content-disposition with a quoted name');
  if (!more.every((line) => HEADER.test(line))) throw malformedError('a part has an unexpected header');
  return { name, is_file: filename !== undefined || extended !== undefined, content: part.subarray(end + 4) };
}

function dispositionFirst(a: string, b: string): number {
  const place = (line: string) => (/^content-disposition:/i.test(line) ? 0 : 1);
  return place(a) - place(b);
}

/** The facts of such a body for routing and budgets. */
export interface OtherBody {
  readonly model: string | undefined;
  readonly stream: boolean;
  readonly choices: number;
  readonly input_tokens_estimate: number;
  readonly input_tokens_max: number;
  readonly privileged: readonly PrivilegedValue[];
}

type Found = Pick<OtherBody, 'model' | 'stream' | 'choices' | 'privileged'> & { readonly is_text: boolean };

const BYTES_PER_TOKEN = 4;

const CHOICES_MAX = 100_000;

/** More than any context window: the tokens of an image or recording do not depend on its bytes. */
const UNKNOWN_TOKENS = 1_000_000_000;

const BYTES = /^(?:application\/(?:octet-stream|pdf|zip|gzip)|(?:audio|image|video)\/[\w.+-]+)$/;

const NOTHING: Found = { model: undefined, stream: false, choices: 1, privileged: [], is_text: true };

/** Whether a body of this type is a form. */
export function isForm({ 'content-type': type }: IncomingHttpHeaders): boolean {
  return mediaType(type) === 'multipart/form-data';
}

/** Reads models and privileged fields. Raises invalid_*, and status 415 for a type that could hide a model. */
export async function readOtherBody(
  headers: IncomingHttpHeaders,
  body: RequestBody,
  isModel: (text: string) => boolean,
): Promise<OtherBody> {
  const { bytes } = body;
  const { is_text, ...found } = bytes.length === 0 ? NOTHING : await readTyped(headers, body, isModel);
  if (found.model === NO_MODEL.id) throw invalid('model', 'is not a model name; leave it out if no model is meant');
  return {
    ...found,
    input_tokens_estimate: Math.ceil(bytes.length / BYTES_PER_TOKEN),
    input_tokens_max: is_text ? bytes.length : UNKNOWN_TOKENS,
  };
}

async function readTyped(
  headers: IncomingHttpHeaders,
  body: RequestBody,
  isModel: (text: string) => boolean,
): Promise<Found> {
  const { 'content-type': type } = headers;
  if (isForm(headers)) return await readFields(readForm(type!, body.bytes), isModel);
  if (type !== undefined && BYTES.test(mediaType(type)) && !looksLikeJson(body.bytes)) return NOTHING;
  if (type === undefined || jsonTypeProblem(type) !== undefined) {
    const problem =
      'The request body must be JSON in UTF-8 (content-type: application/json), a form (multipart/form-data), or bytes (such as application/octet-stream).';
    throw new StageError('invalid_request', problem, { status: 415 });
  }
  return readFieldsOfJson(await body.json(OTHER_KEYS), isModel);
}

/** Bytes before the first value of a JSON text in any encoding: byte order marks, white space, halves of wide characters. */
const BEFORE_JSON: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf, 0xfe, 0xff, 0x00, 0x09, 0x0a, 0x0d, 0x20]);
const JSON_STARTS: ReadonlySet<number | undefined> = new Set(Buffer.from('[{"'));
/** Maximum consecutive zero bytes in any encoding; a silent recording begins with many. */
const ZEROS_MAX = 3;

/** Some servers read JSON regardless of the content type, and some of them in UTF-16. */
function looksLikeJson(bytes: Buffer): boolean {
  let at = 0;
  for (let zeros = 0; zeros <= ZEROS_MAX && BEFORE_JSON.has(bytes[at]!); at++) zeros = bytes[at] === 0 ? zeros + 1 : 0;
  return JSON_STARTS.has(bytes[at]);
}

function readFieldsOfJson(json: unknown, isModel: (text: string) => boolean): Found {
  if (!isObject(json))
    throw new StageError('invalid_request', `The request body must be a JSON object, not ${kindOf(json)}.`);
  const { requests, ...fields } = json;
  const { model, n, input } = fields;
  const texts = Array.isArray(input) && typeof input[0] !== 'number' ? Math.max(1, input.length) : 1;
  const is_text = !['image', 'images', 'mask', 'file', 'audio', 'file_id', 'image_url'].some((key) => key in fields);
  return {
    model: model === undefined ? undefined : modelIn(model),
    stream: optional(fields, 'stream', flagAt) === true,
    choices: texts * countOf(n),
    // The speed of a voice is a number.
    privileged: [
      ...readPrivileged(fields, isModel).filter(({ param }) => param !== 'speed' || typeof fields.speed !== 'number'),
      ...readBatchRequests(requests, isModel),
    ],
    is_text:
      is_text && (!Array.isArray(input) || input.every((text) => typeof text !== 'object' || Array.isArray(text))),
  };
}

function countOf(n: unknown): number {
  if (n === undefined || n === null) return 1;
  const count = typeof n === 'string' && /^\d{1,6}$/.test(n) ? Number(n) : n;
  if (typeof count !== 'number' || !Number.isInteger(count) || count < 1 || count > CHOICES_MAX)
    throw invalid('n', `must be a whole number from 1 to ${CHOICES_MAX}`);
  return count;
}

const VALUE_BYTES_MAX = 1024;

async function readFields(parts: readonly FormPart[], isModel: (text: string) => boolean): Promise<Found> {
  const fields = new Map<string, string>();
  const privileged: PrivilegedValue[] = [];
  for (const { name, content, is_file } of parts) {
    const rule = parameterRule(name);
    const text = content.toString('utf8', 0, VALUE_BYTES_MAX);
    if (rule?.name === 'model' || SINGLE.has(name)) {
      if (content.length > VALUE_BYTES_MAX)
        throw invalid(name.slice(0, 60), `must be at most ${VALUE_BYTES_MAX} bytes`);
      if (fields.has(name) || is_file || (rule?.name === 'model' && name !== 'model'))
        throw invalid(name.slice(0, 60), 'must occur once, as a plain field of the form');
      fields.set(name, text);
    } else if (rule !== undefined && rule.rule !== 'pass' && !(rule.harmless?.includes(text) ?? false)) {
      privileged.push({ param: name, rule, value: text });
    }
  }
  const is_batch = fields.get('purpose')?.trim().toLowerCase() === 'batch';
  for (const { name, is_file, content } of parts) {
    // Some servers accept files without a file name.
    if (is_batch && (is_file || name === 'file')) privileged.push(...(await readBatchFile(content, isModel)));
  }
  return {
    model: fields.has('model') ? modelIn(fields.get('model')) : undefined,
    stream: fields.get('stream')?.toLowerCase() === 'true',
    choices: countOf(fields.get('n')),
    privileged,
    is_text: false,
  };
}

const SINGLE: ReadonlySet<string> = new Set(['model', 'stream', 'n', 'purpose']);
