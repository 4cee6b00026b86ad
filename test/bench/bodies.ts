/** Request bodies of the bench: made here so that every process builds the same bytes. */
export type BodyName = '0.5k' | '100k' | '1m' | 'stream';

const WORDS =
  'the file returns a value when path is given and each result keeps order before another call may change it'.split(
    ' ',
  );

/** Text of exactly `length` characters, from a fixed pseudo-random sequence. */
function prose(length: number, seed: number): string {
  const parts: string[] = [];
  let size = 0;
  let state = seed;
  while (size < length) {
    state = (state * 1103515245 + 12345) % 2147483648;
    const word = WORDS[state % WORDS.length] as string;
    parts.push(word);
    size += word.length + 1;
  }
  return parts.join(' ').slice(0, length);
}

function tool(index: number): object {
  const property = (name: string, at: number) => [
    name,
    { type: at % 3 === 0 ? 'integer' : 'string', description: prose(70, index * 31 + at) },
  ];
  const names = ['file_path', 'pattern', 'limit', 'offset', 'mode', 'include', 'timeout_ms', 'description'];
  return {
    name: `tool_${index}`,
    description: prose(760, index),
    input_schema: {
      type: 'object',
      properties: Object.fromEntries(names.map(property)),
      required: names.slice(0, 2),
      additionalProperties: false,
    },
  };
}

function turn(index: number, size: number): object[] {
  const call = {
    type: 'tool_use',
    id: `toolu_${index}`,
    name: 'tool_3',
    input: { file_path: `/src/part-${index}.ts` },
  };
  const result = { type: 'tool_result', tool_use_id: `toolu_${index}`, content: prose(size, index + 7) };
  return [
    { role: 'assistant', content: [{ type: 'text', text: prose(180, index) }, call] },
    { role: 'user', content: [result] },
  ];
}

const ATTRIBUTION = 'x-anthropic-billing-header: cc_version=2.0.44; cc_entrypoint=cli;';
const METADATA = { user_id: '{"device_id":"d0","account_uuid":"a0","session_id":"s0"}' };

/** A coding client's request: 27 KB of system prompt, 47 KB of tools, and tool results up to `size` bytes. */
function codingRequest(size: number): string {
  const messages: object[] = [{ role: 'user', content: prose(240, 3) }];
  const request = {
    model: 'bench-model',
    max_tokens: 1024,
    metadata: METADATA,
    system: [
      { type: 'text', text: ATTRIBUTION },
      { type: 'text', text: prose(27_000, 1), cache_control: { type: 'ephemeral', ttl: '1h' } },
    ],
    tools: Array.from({ length: 27 }, (_, index) => tool(index)),
    messages,
  };
  const step = size > 500_000 ? 12_000 : 3_000;
  let length = JSON.stringify(request).length;
  for (let index = 0; length < size - step; index++) {
    const added = turn(index, step - 400);
    messages.push(...added);
    length += JSON.stringify(added).length - 1;
  }
  return JSON.stringify(request);
}

function smallRequest(stream: boolean): string {
  return JSON.stringify({
    model: 'bench-model',
    max_tokens: 256,
    ...(stream ? { stream: true } : {}),
    metadata: METADATA,
    messages: [{ role: 'user', content: prose(330, 5) }],
  });
}

/** The bytes of a named body. */
export function requestBody(name: BodyName): Buffer {
  if (name === '100k') return Buffer.from(codingRequest(102_400));
  if (name === '1m') return Buffer.from(codingRequest(1_048_576));
  return Buffer.from(smallRequest(name === 'stream'));
}
