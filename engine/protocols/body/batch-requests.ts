/** The requests that a batch is made of: each names a model, and may name more. */
import { isUtf8 } from 'node:buffer';
import { StageError } from '../../contract/errors.ts';
import { describeFault } from '../../kit/json/faults.ts';
import { JsonScan } from '../../kit/json/scan.ts';
import { invalid, isObject } from '../read-json.ts';
import { fieldRule } from './field-rules.ts';
import type { Fields } from './fields.ts';
import { OTHER_KEYS } from './known-keys.ts';
import { type DecisiveValue, readDecisive } from './read-decisive.ts';

const MODEL = fieldRule('model', true)!;
const BOUNDS = { depth: 128, values: 500_000 };
const LINE_FEED = 0x0a;

/** Lines and bytes that are read without letting others in between. */
const LINES_AT_ONCE = 200;
const BYTES_AT_ONCE = 256 * 1024;

/** What requests of a batch name, each thing once, where it stands first. */
class Named {
  readonly #isModel: (text: string) => boolean;
  readonly #found = new Map<string, DecisiveValue>();

  constructor(isModel: (text: string) => boolean) {
    this.#isModel = isModel;
  }

  /** Raises invalid_request. */
  add(request: unknown, param: string): void {
    if (!isObject(request)) throw invalid(param, 'must be the body of a request, as an object');
    const { model } = request as Fields;
    if (typeof model !== 'string' || model === '') throw invalid(`${param}.model`, 'must be the name of a model');
    this.#note({ param: `${param}.model`, rule: MODEL, value: model });
    for (const value of readDecisive(request as Fields, this.#isModel))
      this.#note({ ...value, param: `${param}.${value.param}` });
  }

  all(): readonly DecisiveValue[] {
    return [...this.#found.values()];
  }

  #note(value: DecisiveValue): void {
    const key = `${value.rule.name} ${value.value === undefined ? '' : `=${value.value}`}`;
    if (!this.#found.has(key)) this.#found.set(key, value);
  }
}

/** What the requests of a Messages batch name beside each other. Raises invalid_request. */
export function readBatchRequests(requests: unknown, isModel: (text: string) => boolean): readonly DecisiveValue[] {
  if (requests === undefined || requests === null) return [];
  if (!Array.isArray(requests)) throw invalid('requests', 'must be a list');
  const named = new Named(isModel);
  for (const [index, request] of requests.entries()) {
    if (!isObject(request)) throw invalid(`requests[${index}]`, 'must be an object');
    named.add((request as Fields).params, `requests[${index}].params`);
  }
  return named.all();
}

/** What the lines of a file for a batch name, each the body of a request. Raises invalid_request, invalid_json and invalid_encoding. */
export async function readBatchFile(
  bytes: Buffer,
  isModel: (text: string) => boolean,
): Promise<readonly DecisiveValue[]> {
  if (!isUtf8(bytes)) throw new StageError('invalid_encoding', 'The file of the batch is not valid UTF-8.');
  const named = new Named(isModel);
  let line = 0;
  let paused_at = 0;
  for (let at = 0; at < bytes.length; ) {
    const found = bytes.indexOf(LINE_FEED, at);
    const end = found < 0 ? bytes.length : found;
    readLine(bytes.subarray(at, end), `file line ${++line}`, named);
    at = end + 1;
    if (line % LINES_AT_ONCE !== 0 && at - paused_at < BYTES_AT_ONCE) continue;
    paused_at = at;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return named.all();
}

function readLine(line: Buffer, param: string, named: Named): void {
  if (line.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)) return;
  const scan = new JsonScan(line, BOUNDS, { names: OTHER_KEYS });
  scan.step(line.length + 1);
  if (scan.fault !== undefined)
    throw new StageError('invalid_json', `${param} ${describeFault(scan.fault, line, BOUNDS)}.`);
  if (scan.ambiguous !== undefined) throw invalid(param, 'has a key that decides something twice, or in two spellings');
  named.add(parse(line, param).body, `${param}: body`);
}

function parse(line: Buffer, param: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(line.toString('utf8'));
  } catch {
    throw new StageError('invalid_json', `${param} is not JSON.`);
  }
  if (!isObject(value)) throw invalid(param, 'must be an object');
  return value as Fields;
}
