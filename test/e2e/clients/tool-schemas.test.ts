/** One tool or one image must not have the requests of a whole session refused. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { askBody, modelVia, type Nine, post, TRANSLATED, useNine } from '../support/nine.ts';
import { lossesOf } from '../support/odd.ts';

type Schema = Record<string, unknown>;

let nine: Nine;
useNine((opened) => {
  nine = opened;
});

const TEXT = { type: 'string' };
const closed = (properties: Schema, more: Schema = {}): Schema => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...more,
});

/** A tool as the client's protocol has it. */
function toolOf(spoken: Protocol, schema: unknown, more: Schema = {}): Schema {
  const said = schema === undefined ? {} : { [spoken === 'messages' ? 'input_schema' : 'parameters']: schema };
  const tool = { name: 'find', ...said, ...more };
  if (spoken === 'messages') return tool;
  return spoken === 'chat' ? { type: 'function', function: tool } : { type: 'function', ...tool };
}

/** The tools that the provider was sent. */
function toolsSent(): { readonly schema: Schema; readonly strict: unknown }[] {
  const { body } = nine.provider.only();
  return ((body as { tools?: Schema[] }).tools ?? []).map((sent) => {
    const tool = (sent.function ?? sent) as Schema;
    return { schema: (tool.input_schema ?? tool.parameters) as Schema, strict: tool.strict };
  });
}

async function ask(spoken: Protocol, upstream: Protocol, more: Schema): Promise<readonly string[]> {
  nine.provider.reset();
  const response = await post(nine.gateway, spoken, askBody(spoken, modelVia(upstream), 'Say hello.', more));
  assert.deepEqual(nine.provider.refused, []);
  assert.equal(response.status, 200, response.text);
  return lossesOf(nine, response);
}

/** Schemas of MCP servers and generators; each had requests rejected as a whole by one of the three APIs. */
const SCHEMAS: readonly unknown[] = [
  ...[undefined, true, null, { type: 'object' }, { properties: { a: TEXT } }, { type: 'string' }],
  { type: ['object', 'null'], properties: null, required: null },
  { anyOf: [closed({ a: TEXT }), closed({ b: TEXT })] },
  { oneOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/none' }], $defs: { a: closed({ a: TEXT }) } },
  { type: 'object', allOf: [closed({ a: TEXT }), { properties: { b: TEXT }, required: ['b'] }], enum: [{}] },
  { $schema: 'http://json-schema.org/draft-07/schema#', ...closed({ a: {}, b: true }) },
  // As in draft 4 and in draft 3.
  { type: 'object', properties: { n: { type: 'number', minimum: 0, exclusiveMinimum: true } } },
  {
    type: 'object',
    properties: { a: { type: 'string', required: true }, range: { type: 'array', items: [TEXT, TEXT] } },
  },
  {
    type: 'object',
    properties: { a: { enum: ['x', 'x', null] }, b: { type: 'string', enum: [] } },
    required: ['a', 'a'],
  },
  {
    type: 'OBJECT',
    properties: { a: { type: 'STRING' }, b: { type: 'int' }, c: { type: 'list' }, d: 'number', e: null },
  },
  { type: 'object', properties: { a: { type: 'string', pattern: '(?<!x', description: null, enum: null } } },
  { ...closed({ 'filter[id]': TEXT, $top: { type: 'integer' }, ['x'.repeat(65)]: TEXT }), required: ['filter[id]'] },
  closed({
    a: { type: 'string', minLength: 1, maxLength: 9, pattern: '^a', format: 'uri-reference', default: 'a' },
    b: { type: 'integer', minimum: 0, exclusiveMaximum: 9, multipleOf: 3 },
    c: { type: 'array', items: TEXT, minItems: 2, maxItems: 5, uniqueItems: true },
    d: { type: 'object', additionalProperties: TEXT, minProperties: 1 },
  }),
  closed(
    { root: { $ref: '#/$defs/node' } },
    { $defs: { node: closed({ children: { items: { $ref: '#/$defs/node' } } }) } },
  ),
];

describe('tools with all of these schemas', () => {
  for (const [spoken, upstream] of TRANSLATED) {
    it(`are accepted in one request, strict or not: ${spoken} to ${upstream}`, async () => {
      for (const more of [{ strict: true }, { strict: null, description: null }]) {
        const tools = SCHEMAS.map((schema, i) => toolOf(spoken, schema, { ...more, name: `tool_${i}` }));
        await ask(spoken, upstream, { tools });
        assert.equal(toolsSent().length, tools.length);
      }
    });
  }
});

describe('what upstreams are sent for', () => {
  it('more strict tools than the Messages API compiles: the first twenty stay strict', async () => {
    const tools = Array.from({ length: 22 }, (_, i) =>
      toolOf('chat', closed({ a: TEXT }), { name: `t${i}`, strict: true }),
    );
    assert.deepEqual(await ask('chat', 'messages', { tools }), ['strict_schema']);
    assert.equal(toolsSent().filter(({ strict }) => strict === true).length, 20);
  });

  it('two tools of one name: the first', async () => {
    for (const [spoken, upstream] of TRANSLATED) {
      const tools = ['a', 'b'].map((key) => toolOf(spoken, closed({ [key]: TEXT })));
      const losses = await ask(spoken, upstream, { tools });
      assert.deepEqual(
        toolsSent().map(({ schema }) => schema),
        [closed({ a: TEXT })],
      );
      // Responses clients have namespaces, so that tools are distinguishable on reading.
      if (spoken !== 'responses') assert.deepEqual(losses, ['duplicate_tool']);
    }
  });

  it('no tools, but a choice of them', async () => {
    for (const [spoken, upstream] of TRANSLATED) {
      const choice = spoken === 'messages' ? { type: 'auto', disable_parallel_tool_use: true } : 'auto';
      const parallel = spoken === 'messages' ? {} : { parallel_tool_calls: false };
      await ask(spoken, upstream, { tools: [], tool_choice: choice, ...parallel });
      assert.deepEqual(toolsSent(), []);
    }
  });
});

const PNG = Buffer.from('89504e470d0a1a0a0000000d', 'hex').toString('base64');
const JPEG = Buffer.from('ffd8ffe000104a4649460001', 'hex').toString('base64');
const WEBP = Buffer.concat([Buffer.from('RIFF'), Buffer.from([9, 0, 0, 0]), Buffer.from('WEBPVP8 ')]).toString(
  'base64',
);
const PDF = Buffer.from('%PDF-1.7\n').toString('base64');
/** Bytes that say nothing of their type. */
const OTHER = Buffer.from('123456789').toString('base64');

/** An image as the client's protocol has it. */
function imageOf(spoken: Protocol, media_type: string, data: string): Schema {
  const url = `data:${media_type};base64,${data}`;
  if (spoken === 'messages') return { type: 'image', source: { type: 'base64', media_type, data } };
  return spoken === 'chat' ? { type: 'image_url', image_url: { url } } : { type: 'input_image', image_url: url };
}

function asked(spoken: Protocol, content: Schema[]): Schema {
  return { [spoken === 'responses' ? 'input' : 'messages']: [{ role: 'user', content }] };
}

/** A result of a tool with this in it; chat completions have text in results alone. */
function withResult(spoken: Protocol, content: Schema[]): Schema {
  if (spoken === 'responses') {
    const call = { type: 'function_call', call_id: 'c1', name: 'find', arguments: '{}' };
    return {
      input: [{ role: 'user', content: 'Go' }, call, { type: 'function_call_output', call_id: 'c1', output: content }],
    };
  }
  const call = { type: 'tool_use', id: 'c1', name: 'find', input: {} };
  const result = { type: 'tool_result', tool_use_id: 'c1', content };
  return {
    messages: [
      { role: 'user', content: 'Go' },
      { role: 'assistant', content: [call] },
      { role: 'user', content: [result] },
    ],
  };
}

describe('an image of the type', () => {
  const TYPES: readonly (readonly [given: string, data: string, sent: string])[] = [
    ...['image/jpg', 'image/pjpeg', 'IMAGE/JPG', 'image/jpeg; charset=binary'].map(
      (input) => [input, OTHER, 'image/jpeg'] as const,
    ),
    ...['image/x-png', 'Image/PNG', 'image/png;foo=bar'].map((input) => [input, OTHER, 'image/png'] as const),
    ['image/x-gif', OTHER, 'image/gif'],
    ['image/x-webp', OTHER, 'image/webp'],
    // The bytes are decisive.
    ['image/png', JPEG, 'image/jpeg'],
    ['image/jpeg', PNG, 'image/png'],
    ['application/octet-stream', WEBP, 'image/webp'],
  ];
  const typesSent = () => JSON.stringify(nine.provider.only().body).match(/image\/[a-z.+-]+/g);
  for (const [spoken, upstream] of TRANSLATED) {
    it(`${TYPES.map(([input]) => input).join(', ')} is sent by its known name: ${spoken} to ${upstream}`, async () => {
      const images = TYPES.map(([input, data]) => imageOf(spoken, input, data));
      const sent = TYPES.map(([, , type]) => type);
      assert.deepEqual(await ask(spoken, upstream, asked(spoken, images)), []);
      assert.deepEqual(typesSent(), sent);
      assert.deepEqual(
        nine.provider.only().seen.images,
        TYPES.map(([, data]) => data),
      );
      if (spoken === 'chat') return;
      await ask(spoken, upstream, { ...withResult(spoken, images), tools: [toolOf(spoken, { type: 'object' })] });
      assert.deepEqual(typesSent(), sent);
    });
  }

  it('image/bmp, image/tiff, image/svg+xml or image/heic becomes a text that reports it', async () => {
    for (const [spoken, upstream] of TRANSLATED) {
      const types = ['image/bmp', 'image/tiff', 'image/svg+xml', 'image/heic'];
      const images = types.map((type) => imageOf(spoken, type, OTHER));
      assert.deepEqual(await ask(spoken, upstream, asked(spoken, images)), ['image_type']);
      const { seen } = nine.provider.only();
      assert.deepEqual(seen.images, []);
      assert.deepEqual(
        seen.texts.map(([, said]) => said),
        types.map((type) => `[An image was here. Its type (${type}) cannot be read.]`),
      );
    }
  });

  it('application/pdf is a document, and a document that is an image is an image', async () => {
    for (const [spoken, upstream] of TRANSLATED) {
      await ask(spoken, upstream, asked(spoken, [imageOf(spoken, 'application/x-pdf', PDF)]));
      assert.deepEqual(nine.provider.only().seen.documents, [PDF]);
      const source = { type: 'base64', media_type: 'image/jpg', data: JPEG };
      const url = `data:image/jpg;base64,${JPEG}`;
      const file = {
        messages: { type: 'document', source },
        chat: { type: 'file', file: { filename: 'a.jpg', file_data: url } },
        responses: { type: 'input_file', filename: 'a.jpg', file_data: url },
      }[spoken];
      await ask(spoken, upstream, asked(spoken, [file]));
      assert.deepEqual(nine.provider.only().seen.images, [JPEG]);
    }
  });
});
