/** One tool, one schema of an answer or one image must not have the requests of a whole session refused. */
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
  const answer = await post(nine.gateway, spoken, askBody(spoken, modelVia(upstream), 'Say hello.', more));
  assert.deepEqual(nine.provider.refused, []);
  assert.equal(answer.status, 200, answer.text);
  return lossesOf(nine, answer);
}

/** What MCP servers and generators of schemas give; each as a whole had requests refused by one of the three APIs. */
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
    it(`are taken in one request, strict or not: ${spoken} to ${upstream}`, async () => {
      for (const more of [{ strict: true }, { strict: null, description: null }]) {
        const tools = SCHEMAS.map((schema, i) => toolOf(spoken, schema, { ...more, name: `tool_${i}` }));
        await ask(spoken, upstream, { tools });
        assert.equal(toolsSent().length, tools.length);
      }
    });
  }
});

interface Row {
  readonly given: Schema;
  readonly strict?: boolean;
  readonly sent: Readonly<Partial<Record<Protocol, Schema>>>;
  readonly still_strict?: Readonly<Partial<Record<Protocol, boolean>>>;
  readonly losses?: readonly string[];
}

const OPEN = { type: 'object', properties: { a: TEXT }, required: ['a'] };

/** What exactly is sent. */
const ROWS: Readonly<Record<string, Row>> = {
  'an object without properties': {
    given: { type: 'object' },
    sent: {
      messages: { type: 'object' },
      chat: { type: 'object', properties: {} },
      responses: { type: 'object', properties: {} },
    },
  },
  'a strict tool with constraints': {
    given: closed({
      n: { type: 'integer', description: 'How many', minimum: 1, maximum: 5 },
      u: { type: 'string', format: 'uri' },
    }),
    strict: true,
    sent: {
      messages: closed({
        n: { type: 'integer', description: 'How many\n\n{minimum: 1, maximum: 5}' },
        u: { type: 'string', format: 'uri' },
      }),
      responses: closed({
        n: { type: 'integer', description: 'How many', minimum: 1, maximum: 5 },
        u: { type: 'string', description: '{format: "uri"}' },
      }),
    },
    still_strict: { messages: true, responses: true },
    losses: ['schema_constraints'],
  },
  'a strict tool with a map, which would always be empty': {
    given: closed({ m: { type: 'object', additionalProperties: TEXT } }),
    strict: true,
    sent: { messages: closed({ m: { type: 'object', additionalProperties: TEXT } }) },
    still_strict: { messages: false, chat: false },
    losses: ['strict_schema'],
  },
  'an open strict tool': {
    given: OPEN,
    strict: true,
    sent: { messages: { ...OPEN, additionalProperties: false }, chat: { ...OPEN, additionalProperties: false } },
    still_strict: { messages: true, chat: true },
    losses: ['schema_closed'],
  },
  'names that one vendor refuses': {
    given: { type: 'object', properties: { 'a[b]': TEXT }, required: ['a[b]'], additionalProperties: false },
    sent: {
      messages: {
        type: 'object',
        properties: {},
        patternProperties: { '^a\\[b\\]$': TEXT },
        required: ['a[b]'],
        additionalProperties: false,
        description: '{further properties: ["a[b]"]}',
      },
    },
    losses: ['property_name'],
  },
};

describe('what upstreams are sent for', () => {
  for (const [name, { given, strict, sent, still_strict = {}, losses = [] }] of Object.entries(ROWS)) {
    for (const [upstream, schema] of Object.entries(sent) as [Protocol, Schema][]) {
      it(`${name}: ${upstream}`, async () => {
        const [spoken] = TRANSLATED.find(([, to]) => to === upstream)!;
        const noted = await ask(spoken, upstream, { tools: [toolOf(spoken, given, strict ? { strict } : {})] });
        const [tool] = toolsSent();
        assert.deepEqual(tool!.schema, schema);
        if (strict) assert.equal(tool!.strict === true, still_strict[upstream] ?? false);
        assert.deepEqual(noted, losses);
      });
    }
  }

  it('an optional property of a strict tool: strict stays where it may, and where not is left off', async () => {
    const schema = { ...closed({ a: TEXT, b: TEXT }), required: ['a'] };
    assert.deepEqual(await ask('chat', 'messages', { tools: [toolOf('chat', schema, { strict: true })] }), []);
    assert.deepEqual(toolsSent(), [{ schema, strict: true }]);
    const losses = await ask('messages', 'responses', { tools: [toolOf('messages', schema, { strict: true })] });
    assert.deepEqual([toolsSent(), losses], [[{ schema, strict: false }], ['strict_schema']]);
  });

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
      // Responses clients have namespaces, so that theirs are told apart when they are read.
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

/** A schema of the answer as the client's protocol has it. */
function formatOf(spoken: Protocol, schema: Schema, strict?: boolean): Schema {
  if (spoken === 'messages') return { output_config: { format: { type: 'json_schema', schema } } };
  const named = { name: 'answer', schema, ...(strict !== undefined && { strict }) };
  if (spoken === 'chat') return { response_format: { type: 'json_schema', json_schema: named } };
  return { text: { format: { type: 'json_schema', ...named } } };
}

describe('the schema of an answer, at a Messages upstream,', () => {
  const sent = () => (nine.provider.only().body as { output_config?: { format?: { schema: Schema } } }).output_config;
  const words = () => JSON.stringify((nine.provider.only().body as Schema).system ?? '');

  it('is closed, and its constraints are told', async () => {
    const schema = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      title: 'Scores',
      type: 'object',
      properties: {
        score: { type: 'number', minimum: 0, maximum: 1 },
        tags: { type: 'array', items: TEXT, minItems: 1, maxItems: 3 },
        by: { oneOf: [{ $ref: '#/definitions/person' }, { type: 'null' }], default: null },
        state: { type: ['string', 'null'], enum: ['open', null] },
      },
      required: ['score'],
      additionalProperties: true,
      definitions: { person: { type: 'object', properties: { name: { ...TEXT, maxLength: 9 } } } },
    };
    const losses = await ask('chat', 'messages', formatOf('chat', schema, true));
    assert.deepEqual(sent()?.format?.schema, {
      title: 'Scores',
      type: 'object',
      description: '{additionalProperties: true}',
      properties: {
        score: { type: 'number', description: '{minimum: 0, maximum: 1}' },
        tags: { type: 'array', items: TEXT, minItems: 1, description: '{maxItems: 3}' },
        by: { anyOf: [{ $ref: '#/definitions/person' }, { type: 'null' }], description: '{default: null}' },
        state: { enum: ['open', null] },
      },
      required: ['score'],
      additionalProperties: false,
      definitions: {
        person: {
          type: 'object',
          properties: { name: { type: 'string', description: '{maxLength: 9}' } },
          additionalProperties: false,
        },
      },
    });
    assert.deepEqual(losses, ['output_format_name', 'schema_constraints', 'schema_closed']);
  });

  it('that it cannot be held to is told in the last instruction', async () => {
    const schema = closed({ scores: { type: 'object', additionalProperties: { type: 'number' } } });
    const losses = await ask('responses', 'messages', formatOf('responses', schema));
    assert.equal(sent(), undefined);
    assert.ok(words().includes(JSON.stringify(JSON.stringify(schema)).slice(1, -1)));
    assert.ok(losses.includes('output_schema'));
  });
});

describe('the schema of an answer that a Messages client states', () => {
  const sent = (upstream: Protocol): Schema => {
    const { response_format, text } = nine.provider.only().body as Record<string, Record<string, Schema>>;
    return upstream === 'chat' ? response_format!.json_schema! : text!.format!;
  };

  for (const upstream of ['chat', 'responses'] as const) {
    it(`holds the model at a ${upstream} upstream, as it does at its own`, async () => {
      const schema = closed({ a: TEXT, count: { type: 'integer', minimum: 1 } });
      for (const format of [formatOf('messages', schema), { output_format: { type: 'json_schema', schema } }]) {
        assert.deepEqual(await ask('messages', upstream, format), []);
        assert.deepEqual([sent(upstream).schema, sent(upstream).strict], [schema, true]);
      }
    });

    it(`is told a ${upstream} upstream, with a note, where it cannot hold the model to it`, async () => {
      for (const schema of [
        { ...closed({ a: TEXT, b: TEXT }), required: ['a'] },
        closed({ scores: { type: 'object', additionalProperties: { type: 'number' } } }),
      ]) {
        assert.deepEqual(await ask('messages', upstream, formatOf('messages', schema)), ['strict_schema']);
        assert.deepEqual([sent(upstream).schema, sent(upstream).strict === true], [schema, false]);
      }
    });
  }
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
      (given) => [given, OTHER, 'image/jpeg'] as const,
    ),
    ...['image/x-png', 'Image/PNG', 'image/png;foo=bar'].map((given) => [given, OTHER, 'image/png'] as const),
    ['image/x-gif', OTHER, 'image/gif'],
    ['image/x-webp', OTHER, 'image/webp'],
    // The bytes know better.
    ['image/png', JPEG, 'image/jpeg'],
    ['image/jpeg', PNG, 'image/png'],
    ['application/octet-stream', WEBP, 'image/webp'],
  ];
  const typesSent = () => JSON.stringify(nine.provider.only().body).match(/image\/[a-z.+-]+/g);
  for (const [spoken, upstream] of TRANSLATED) {
    it(`${TYPES.map(([given]) => given).join(', ')} is sent by its known name: ${spoken} to ${upstream}`, async () => {
      const images = TYPES.map(([given, data]) => imageOf(spoken, given, data));
      const sent = TYPES.map(([, , type]) => type);
      assert.deepEqual(await ask(spoken, upstream, asked(spoken, images)), []);
      assert.deepEqual(typesSent(), sent);
      assert.deepEqual(
        nine.provider.only().seen.images,
        TYPES.map(([, data]) => data),
      );
      if (spoken === 'chat') return;
      await ask(spoken, upstream, { ...withResult(spoken, images), tools: [toolOf(spoken, OPEN)] });
      assert.deepEqual(typesSent(), sent);
    });
  }

  it('image/bmp, image/tiff, image/svg+xml or image/heic becomes a text that says so', async () => {
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
