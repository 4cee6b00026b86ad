/** One image or one tool must not have the requests of a whole session refused, whoever sends them to whom. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { checkRequest } from '../../support/model-provider/model-provider.ts';
import { PAIRS, translate } from './translating.ts';

/** What a strict upstream gets of a request without tools, or with these. */
function sent(from: Protocol, to: Protocol, more: object) {
  const { json, notes } = translate(from, to, false, { tools: [], ...more });
  const body = JSON.parse(json) as { readonly tools?: readonly Record<string, unknown>[] };
  return { json, body, seen: checkRequest(to, body), losses: notes.names };
}

const PNG = Buffer.from('89504e470d0a1a0a0000000d', 'hex').toString('base64');
const JPEG = Buffer.from('ffd8ffe000104a4649460001', 'hex').toString('base64');
const WEBP = Buffer.from('524946460900000057454250565038200a', 'hex').toString('base64');
const PDF = Buffer.from('%PDF-1.7\n').toString('base64');
/** Bytes that say nothing of their type. */
const OTHER = Buffer.from('123456789').toString('base64');

/** An image as the client's protocol has it. */
function imageOf(from: Protocol, media_type: string, data: string): object {
  const url = `data:${media_type};base64,${data}`;
  if (from === 'messages') return { type: 'image', source: { type: 'base64', media_type, data } };
  return from === 'chat' ? { type: 'image_url', image_url: { url } } : { type: 'input_image', image_url: url };
}

const user = (from: Protocol, content: readonly object[]) => ({
  [from === 'responses' ? 'input' : 'messages']: [{ role: 'user', content }],
});

/** A result of a tool with this in it; chat completions have text in results alone. */
function result(from: 'messages' | 'responses', content: readonly object[]): object {
  const go = { role: 'user', content: 'Go' };
  if (from === 'responses') {
    const call = { type: 'function_call', call_id: 'c1', name: 'find', arguments: '{}' };
    return { input: [go, call, { type: 'function_call_output', call_id: 'c1', output: content }] };
  }
  const call = { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'find', input: {} }] };
  return { messages: [go, call, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content }] }] };
}

const TYPES: readonly (readonly [given: string, data: string, sent: string])[] = [
  ...['image/jpg', 'image/pjpeg', 'IMAGE/JPG', 'image/jpeg; charset=binary'].map(
    (given) => [given, OTHER, 'image/jpeg'] as const,
  ),
  ...['image/x-png', 'Image/PNG', 'image/png;foo=bar'].map((given) => [given, OTHER, 'image/png'] as const),
  ['image/x-gif', OTHER, 'image/gif'],
  ['image/x-webp', OTHER, 'image/webp'],
  // The bytes are decisive.
  ['image/png', JPEG, 'image/jpeg'],
  ['image/jpeg', PNG, 'image/png'],
  ['application/octet-stream', WEBP, 'image/webp'],
];

for (const { from, to } of PAIRS) {
  test(`images have their known type, and files of another type than they say are what they are: ${from} to ${to}`, () => {
    const images = TYPES.map(([given, data]) => imageOf(from, given, data));
    const typesIn = ({ json }: { readonly json: string }) => json.match(/image\/[a-z.+-]+/g);
    const asked = sent(from, to, user(from, images));
    const expected = TYPES.map(([, , type]) => type);
    assert.deepEqual([typesIn(asked), asked.losses], [expected, []]);
    const bytes = TYPES.map(([, data]) => data);
    assert.deepEqual(asked.seen.images, bytes);
    if (from !== 'chat') assert.deepEqual(typesIn(sent(from, to, result(from, images))), expected);
    const pdf = sent(from, to, user(from, [imageOf(from, 'application/x-pdf', PDF)]));
    assert.deepEqual(pdf.seen.documents, [PDF]);
    const url = `data:image/jpg;base64,${JPEG}`;
    const file = {
      messages: { type: 'document', source: { type: 'base64', media_type: 'image/jpg', data: JPEG } },
      chat: { type: 'file', file: { filename: 'a.jpg', file_data: url } },
      responses: { type: 'input_file', filename: 'a.jpg', file_data: url },
    }[from];
    assert.deepEqual(sent(from, to, user(from, [file])).seen.images, [JPEG]);
  });

  test(`images that no upstream reads become texts that say so: ${from} to ${to}`, () => {
    const types = ['image/bmp', 'image/tiff', 'image/svg+xml', 'image/heic'];
    const images = types.map((type) => imageOf(from, type, OTHER));
    const { seen, losses } = sent(from, to, user(from, images));
    assert.deepEqual([losses, seen.images], [['image_type'], []]);
    const said = types.map((type) => `[An image was here. Its type (${type}) cannot be read.]`);
    assert.deepEqual(
      seen.texts.map(([, text]) => text),
      said,
    );
  });

  test(`of two tools with one name the first is sent, and no choice of none: ${from} to ${to}`, () => {
    const tool = (key: string) => {
      const schema = { type: 'object', properties: { [key]: { type: 'string' } } };
      if (from === 'messages') return { name: 'find', input_schema: schema };
      const named = { name: 'find', parameters: schema };
      return from === 'chat' ? { type: 'function', function: named } : { type: 'function', ...named };
    };
    const { json, seen, losses } = sent(from, to, { tools: ['first_key', 'other_key'].map(tool) });
    assert.deepEqual([seen.tools, json.includes('first_key'), json.includes('other_key')], [['find'], true, false]);
    // Responses clients have namespaces, so that tools are distinguishable on reading.
    if (from !== 'responses') assert.deepEqual(losses, ['duplicate_tool']);
    const choice = from === 'messages' ? { type: 'auto', disable_parallel_tool_use: true } : 'auto';
    const none = sent(from, to, {
      tool_choice: choice,
      ...(from !== 'messages' && { parallel_tool_calls: false }),
    });
    assert.deepEqual(none.seen.tools, []);
  });
}
