/** Bodies of requests to APIs beside those for models: JSON, forms, bytes, or none. */
import type { IncomingHttpHeaders } from 'node:http';
import { StageError } from '../../contract/errors.ts';
import { NO_MODEL } from '../../contract/no-model.ts';
import type { RequestBody } from '../../contract/stage.ts';
import { jsonTypeProblem, mediaType } from '../../kit/media-type.ts';
import { isPrintableLine } from '../../kit/text/printable.ts';
import { invalid, kindOf } from '../read-json.ts';
import { readBatchFile, readBatchRequests } from './batch-requests.ts';
import type { Fields } from './fields.ts';
import { type FormPart, readForm } from './form.ts';
import { OTHER_KEYS } from './known-keys.ts';
import { type DecisiveValue, parameterRule, readDecisive } from './read-decisive.ts';

/** What routing and money may know of such a body. */
export interface OtherBody {
  /** As the client wrote it; `undefined` where it names none. */
  readonly model: string | undefined;
  readonly stream: boolean;
  /** Texts that are read, or answers that are made. */
  readonly choices: number;
  readonly input_tokens_estimate: number;
  readonly input_tokens_max: number;
  readonly decisive: readonly DecisiveValue[];
}

type Found = Pick<OtherBody, 'model' | 'stream' | 'choices' | 'decisive'> & { readonly is_text: boolean };

const BYTES_PER_TOKEN = 4;

/** Most texts or answers of one request. */
const CHOICES_MAX = 100_000;

/** More than any window holds: what an image or a recording comes to is in no relation to its bytes. */
const UNKNOWN_TOKENS = 1_000_000_000;

/** Types of bodies that no server takes for anything else than bytes. */
const BYTES = /^(?:application\/(?:octet-stream|pdf|zip|gzip)|(?:audio|image|video)\/[\w.+-]+)$/;

const NOTHING: Found = { model: undefined, stream: false, choices: 1, decisive: [], is_text: true };

/** Whether a body of this type is a form. */
export function isForm({ 'content-type': type }: IncomingHttpHeaders): boolean {
  return mediaType(type) === 'multipart/form-data';
}

/**
 * Reads what such a body decides over models and money. Raises invalid_encoding, invalid_json, invalid_request, with status
 * 415 for a type in which a model could stand unseen.
 */
export async function readOtherBody(
  headers: IncomingHttpHeaders,
  body: RequestBody,
  isModel: (text: string) => boolean,
): Promise<OtherBody> {
  const { bytes } = body;
  const { is_text, ...found } = bytes.length === 0 ? NOTHING : await readTyped(headers, body, isModel);
  if (found.model === NO_MODEL.id) throw invalid('model', 'names no model; leave it out where none is meant');
  if (found.model !== undefined && !isPrintableLine(found.model))
    throw invalid('model', 'holds characters that cannot be printed; no model has such a name');
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

/** Bytes before the first value of a JSON text, in any of its encodings: byte order marks, space, halves of wide characters. */
const BEFORE_JSON: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf, 0xfe, 0xff, 0x00, 0x09, 0x0a, 0x0d, 0x20]);
const JSON_STARTS: ReadonlySet<number | undefined> = new Set(Buffer.from('[{"'));
/** No encoding has more of them in a row, and a silent recording begins with many. */
const ZEROS_MAX = 3;

/** There are servers that read JSON whatever its type says, and some of them in UTF-16. */
function looksLikeJson(bytes: Buffer): boolean {
  let at = 0;
  for (let zeros = 0; zeros <= ZEROS_MAX && BEFORE_JSON.has(bytes[at]!); at++) zeros = bytes[at] === 0 ? zeros + 1 : 0;
  return JSON_STARTS.has(bytes[at]);
}

function readFieldsOfJson(json: unknown, isModel: (text: string) => boolean): Found {
  if (json === null || typeof json !== 'object' || Array.isArray(json)) {
    throw new StageError('invalid_request', `The request body must be a JSON object, not ${kindOf(json)}.`);
  }
  const { requests, ...fields } = json as Fields;
  const { model, stream, n, input } = fields;
  if (model !== undefined && (typeof model !== 'string' || model === ''))
    throw invalid('model', `must be a non-empty string, not ${model === '' ? 'an empty one' : kindOf(model)}`);
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean')
    throw invalid('stream', `must be true or false, not ${kindOf(stream)}`);
  const texts = Array.isArray(input) && typeof input[0] !== 'number' ? Math.max(1, input.length) : 1;
  const is_text = !['image', 'images', 'mask', 'file', 'audio', 'file_id', 'image_url'].some((key) => key in fields);
  return {
    model: model as string | undefined,
    stream: stream === true,
    choices: texts * countOf(n),
    // The speed of a voice is a number.
    decisive: [
      ...readDecisive(fields, isModel).filter(({ param }) => param !== 'speed' || typeof fields.speed !== 'number'),
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

/** Longest value of a field of a form that decides something. */
const VALUE_BYTES_MAX = 1024;

async function readFields(parts: readonly FormPart[], isModel: (text: string) => boolean): Promise<Found> {
  const fields = new Map<string, string>();
  const decisive: DecisiveValue[] = [];
  for (const { name, content, is_file } of parts) {
    const rule = parameterRule(name);
    const text = content.toString('utf8', 0, VALUE_BYTES_MAX);
    if (rule?.name === 'model' || SINGLE.has(name)) {
      if (content.length > VALUE_BYTES_MAX)
        throw invalid(name.slice(0, 60), `must be at most ${VALUE_BYTES_MAX} bytes`);
      if (fields.has(name) || is_file || (rule?.name === 'model' && name !== 'model'))
        throw invalid(name.slice(0, 60), 'must be there once, as a plain field of the form');
      fields.set(name, text);
    } else if (rule !== undefined && rule.rule !== 'pass' && !(rule.harmless?.includes(text) ?? false)) {
      decisive.push({ param: name, rule, value: text });
    }
  }
  if (fields.get('model') === '') throw invalid('model', 'must be a non-empty string, not an empty one');
  const is_batch = fields.get('purpose')?.trim().toLowerCase() === 'batch';
  for (const { name, is_file, content } of parts) {
    // Not every server asks for the name of a file.
    if (is_batch && (is_file || name === 'file')) decisive.push(...(await readBatchFile(content, isModel)));
  }
  return {
    model: fields.get('model'),
    stream: fields.get('stream')?.toLowerCase() === 'true',
    choices: countOf(fields.get('n')),
    decisive,
    is_text: false,
  };
}

/** Fields that decide something and may stand once. */
const SINGLE: ReadonlySet<string> = new Set(['model', 'stream', 'n', 'purpose']);
