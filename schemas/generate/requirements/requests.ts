import { type Requirement, type Section, yes } from './requirement.ts';

/** A field of a Messages request, by the name it has in the test of all of them. */
function field(id: string, asked: string, name: string, more: Requirement['shown_by'] = {}): Requirement {
  const names = [
    `a Messages request > with ${name} reaches a Messages upstream as it was sent`,
    ...['chat', 'responses'].map(
      (upstream) =>
        `a Messages request > with ${name} reaches a ${upstream} upstream in its words, or the audit record names what was dropped`,
    ),
  ];
  return yes(`requests.${id}`, asked, { 'e2e/clients/messages-fields.test.ts': names, ...more });
}

const SYSTEM = 'e2e/clients/messages-fields.test.ts';
const blocks = (name: string) => `the blocks of system > ${name}`;
const UNTOUCHED = blocks('keep order, types, repetitions and fields that nobody knows, byte for byte');
const TRANSLATED = ['chat', 'responses'].map((upstream) =>
  blocks(
    `stay apart and in order at a ${upstream} upstream, the attribution first, and the audit record tells of the rewrite`,
  ),
);

/** Fields of Messages requests and answers. */
export const REQUESTS: Section = {
  title: 'Messages requests',
  requirements: [
    field('open', 'fields that nobody knows pass, or are told to be dropped or refused', 'a field that nobody knows', {
      'e2e/streams/fidelity.test.ts': [
        'a request body reaches the upstream byte for byte > with unknown, nested and treacherous fields',
        'a request body reaches the upstream byte for byte > whatever JSON it holds',
      ],
    }),
    yes('requests.model', '`model` names the model, and only its value is ever rewritten on the same protocol', {
      'e2e/streams/fidelity.test.ts': [
        'a model that the upstream calls by another name > has only its value rewritten (…), and the audit record says so',
      ],
      'e2e/clients/protocols.test.ts': ['… may use an alias'],
    }),
    field('max-tokens', '`max_tokens` bounds the answer', 'max_tokens'),
    field('messages', '`messages` is the conversation, each with role and content', 'messages'),
    field('system', '`system` is a text or a list of blocks', 'system as a text'),
    field('stream', '`stream` asks for events', 'stream', {
      'e2e/clients/sdk.test.ts': [
        'the SDK streams every event the upstream sent and builds the final message from them',
      ],
    }),
    field('tools', '`tools` and `tool_choice` define tools and choose among them', 'tools and tool_choice', {
      'e2e/clients/sdk.test.ts': ['tools travel up, a tool call streamed in pieces comes back whole'],
    }),
    field('tools.deferred', 'tools may be loaded later', 'tools that are loaded later'),
    yes(
      'requests.tools.provider',
      'tools that only a provider can run, MCP servers among them, pass or are refused by name',
      {
        'e2e/clients/messages-fields.test.ts': [
          'a Messages request > with tools that only its own provider can run reaches a Messages upstream as it was sent',
          'a Messages request > with tools that only its own provider can run is refused at a chat upstream, by name',
          'a Messages request > with tools that only its own provider can run is refused at a responses upstream, by name',
          "a Messages request > with such tools beside one of the client keeps the client's at a … upstream, and the audit record tells",
        ],
      },
    ),
    field('thinking', '`thinking` and effort ask for reasoning', 'thinking'),
    field('metadata', '`metadata` says who the user of the caller is', 'metadata'),
    field('stop-sequences', '`stop_sequences` end the answer, also at an upstream that knows none', 'stop_sequences', {
      'e2e/money/stop-and-usage.test.ts': [
        'a stop sequence at an upstream that knows none > cuts the … of a … client there, which is told so',
        'a stop sequence at an upstream that knows none > is also found where an upstream takes only four',
        'a stop sequence at an upstream that knows none > is found across the texts of an answer by a … client, in a stream and in a document',
      ],
    }),
    field('sampling', '`temperature` and `top_p` choose how words are drawn', 'temperature and top_p'),
    field('sampling.top-k', '`top_k` chooses how words are drawn', 'top_k'),
    field('context-management', '`context_management` says what may be cleared', 'context_management'),
    field('output-config', '`output_config` says what the answer looks like', 'output_config'),
    field(
      'cache-control',
      '`cache_control` may stand in blocks of system, messages and tools',
      'cache_control in system, messages and tools',
    ),
    yes('requests.usage.cache-creation', 'answers keep `cache_creation_input_tokens`', {
      'e2e/streams/fidelity-response.test.ts': [
        'a JSON response > reaches the client byte for byte, with its length, and is metered',
        'a stream passes byte for byte and is metered exactly, however it is cut and compressed',
      ],
      'e2e/clients/sdk.test.ts': [
        'the SDK streams every event the upstream sent and builds the final message from them',
      ],
    }),
    yes('requests.usage.cache-read', 'answers keep `cache_read_input_tokens`', {
      'e2e/streams/fidelity-response.test.ts': [
        'a JSON response > reaches the client byte for byte, with its length, and is metered',
        'a stream passes byte for byte and is metered exactly, however it is cut and compressed',
      ],
      'e2e/clients/sdk-messages-client.test.ts': ['usage tells cached tokens apart …'],
    }),
    yes('system.order', 'blocks of `system` keep order, types and nested fields', { [SYSTEM]: [UNTOUCHED] }),
    yes('system.apart', 'blocks of `system` are not merged into a text', { [SYSTEM]: [UNTOUCHED, ...TRANSLATED] }),
    yes('system.attribution-first', 'nothing is put before the attribution in `system`', {
      [SYSTEM]: [UNTOUCHED, ...TRANSLATED],
    }),
    yes('system.no-sorting', 'blocks of `system` are neither sorted nor rewritten, and repeated ones stay', {
      [SYSTEM]: [UNTOUCHED, ...TRANSLATED],
    }),
    yes(
      'system.unknown-fields',
      'fields that nobody knows stay in blocks of `system`; where the protocol of the upstream has no place for them, the audit log tells',
      {
        [SYSTEM]: [UNTOUCHED, ...TRANSLATED],
      },
    ),
    yes(
      'system.rewrite',
      'where a body has to be rewritten, the attribution keeps its place and the audit log tells of it',
      {
        [SYSTEM]: [
          blocks('stay as they are where the name of the model is replaced, and the audit record tells of that alone'),
          ...TRANSLATED,
        ],
      },
    ),
    yes('system.policies', 'what an organisation wants to say comes from managed policies, not from changed requests', {
      'e2e/sign-in/managed-settings.test.ts': [
        'managed settings > are those of the policies meant for the caller, with a checksum anybody can recompute',
      ],
      'e2e/clients/sdk.test.ts': [
        'the upstream sees the very request the SDK would have sent to it directly, but for the credential',
      ],
    }),
  ],
};
