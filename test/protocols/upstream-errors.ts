/**
 * Errors as servers send them: status and body, with what they mean. Bodies are those of the servers' own code, of their documents and
 * of public reports.
 * @module
 */
import type { Meaning } from '../../engine/protocols/error-meanings.ts';

/** An error of a server. */
export interface ServerError {
  readonly server: string;
  readonly status: number;
  /** JSON, or the text of a body that is none. */
  readonly body: object | string;
  /** What a client is told of it at least. */
  readonly says: string;
}

const error = (fields: object) => ({ error: fields });
const inMessages = (type: string, message: string) => ({ type: 'error', error: { type, message } });
const wrapped = (raw: object | string, provider_name: string) =>
  error({
    message: 'Provider returned error',
    code: 400,
    metadata: { raw: typeof raw === 'string' ? raw : JSON.stringify(raw), provider_name },
  });

/** Conversations that are too long. */
export const FULL_CONTEXTS: readonly ServerError[] = [
  {
    server: 'Messages API',
    status: 400,
    body: inMessages('invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum'),
    says: 'prompt is too long: 210000 tokens > 200000 maximum',
  },
  {
    server: 'Messages API, with the answer',
    status: 400,
    body: inMessages(
      'invalid_request_error',
      'input length and `max_tokens` exceed context limit: 196570 + 8192 > 200000, decrease input length or `max_tokens` and try again',
    ),
    says: '196570 + 8192 > 200000',
  },
  {
    server: 'OpenAI',
    status: 400,
    body: error({
      message: 'Your input exceeds the context window of this model. Please adjust your input and try again.',
      type: 'invalid_request_error',
      param: 'input',
      code: 'context_length_exceeded',
    }),
    says: 'Your input exceeds the context window of this model.',
  },
  {
    server: 'OpenAI, older models',
    status: 400,
    body: error({
      message:
        "This model's maximum context length is 4097 tokens. However, you requested 4118 tokens (3118 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    }),
    says: 'maximum context length is 4097 tokens',
  },
  {
    server: 'Azure',
    status: 400,
    body: error({
      message:
        'Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please reduce the length of the messages.',
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    }),
    says: '272000 tokens',
  },
  {
    server: 'Bedrock',
    status: 400,
    body: { message: 'Input is too long for requested model.' },
    says: 'Input is too long for requested model.',
  },
  {
    server: 'Bedrock, behind a chat API',
    status: 400,
    body: error({ message: 'Input is too long for requested model.' }),
    says: 'Input is too long for requested model.',
  },
  {
    server: 'Bedrock, other models',
    status: 400,
    body: { message: 'Too many input tokens. Max input tokens: 8192, request input token count: 10043 ' },
    says: 'request input token count: 10043',
  },
  {
    server: 'Gemini',
    status: 400,
    body: [
      error({
        code: 400,
        message: 'The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).',
        status: 'INVALID_ARGUMENT',
      }),
    ],
    says: '(1196265)',
  },
  {
    server: 'Gemini, with its counts in the text',
    status: 400,
    body: error({
      code: 400,
      message: 'input token count 5 exceeds the maximum number of tokens allowed 4',
      status: 'INVALID_ARGUMENT',
    }),
    says: 'input token count 5',
  },
  {
    server: 'Vertex',
    status: 400,
    body: error({
      code: 400,
      message:
        'Unable to submit request because the input token count is 1200000 but model only supports up to 1048576. Reduce the input token count and try again.',
      status: 'INVALID_ARGUMENT',
    }),
    says: '1048576',
  },
  {
    server: 'vLLM',
    status: 400,
    body: {
      object: 'error',
      message:
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.",
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    says: '122946 tokens',
  },
  {
    server: 'vLLM, newer',
    status: 400,
    body: error({
      message:
        "You passed 40961 input tokens and requested 4096 output tokens. However, the model's context length is only 40960 tokens, resulting in a maximum input length of 36864 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=40961)",
      type: 'BadRequestError',
      param: 'input_tokens',
      code: 400,
    }),
    says: '40961 input tokens',
  },
  {
    server: 'vLLM, a decoder prompt',
    status: 400,
    body: error({
      message:
        'The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.',
      type: 'BadRequestError',
      code: 400,
    }),
    says: 'length 5000',
  },
  {
    server: 'SGLang',
    status: 400,
    body: {
      object: 'error',
      message: "The input (300 tokens) is longer than the model's context length (200 tokens).",
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    says: 'The input (300 tokens)',
  },
  {
    server: 'SGLang, with the answer',
    status: 400,
    body: {
      object: 'error',
      message:
        "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 140000 tokens: 139000 tokens from the input messages and 1000 tokens for the completion.",
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    says: '140000 tokens',
  },
  {
    server: 'SGLang, without truncation',
    status: 400,
    body: {
      object: 'error',
      message:
        'Input length (40000 tokens) exceeds the maximum allowed length (32763 tokens). Use a shorter input or enable --allow-auto-truncate.',
      type: 'BadRequestError',
      code: 400,
    },
    says: '40000 tokens',
  },
  {
    server: 'llama.cpp',
    status: 400,
    body: error({
      code: 400,
      message: 'the request exceeds the available context size, try increasing it',
      type: 'exceed_context_size_error',
      n_prompt_tokens: 5000,
      n_ctx: 4096,
    }),
    says: 'the request exceeds the available context size',
  },
  {
    server: 'llama.cpp, by its type alone',
    status: 400,
    body: error({ code: 400, message: 'no room', type: 'exceed_context_size_error' }),
    says: 'no room',
  },
  {
    server: 'llama.cpp, while it answers',
    status: 500,
    body: error({ code: 500, message: 'Context size has been exceeded.', type: 'server_error' }),
    says: 'Context size has been exceeded.',
  },
  {
    server: 'Ollama',
    status: 400,
    body: error({
      message: 'prompt too long; exceeded max context length by 1024 tokens',
      type: 'invalid_request_error',
      param: null,
      code: null,
    }),
    says: 'by 1024 tokens',
  },
  {
    server: 'Ollama, its own API',
    status: 500,
    body: { error: 'the input length exceeds the context length' },
    says: 'the input length exceeds the context length',
  },
  {
    server: 'LM Studio',
    status: 400,
    body: {
      error:
        'Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input',
    },
    says: 'the first 5000 tokens',
  },
  {
    server: 'LM Studio, older',
    status: 400,
    body: error({
      message: 'The number of tokens to keep from the initial prompt is greater than the context length.',
    }),
    says: 'tokens to keep',
  },
  {
    server: 'TGI',
    status: 422,
    body: {
      error:
        'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2000 `inputs` tokens and 100 `max_new_tokens`',
      error_type: 'validation',
    },
    says: 'Given: 2000 `inputs` tokens',
  },
  {
    server: 'TGI, the input alone',
    status: 422,
    body: {
      error: 'Input validation error: `inputs` must have less than 1024 tokens. Given: 1500',
      error_type: 'validation',
    },
    says: 'Given: 1500',
  },
  {
    server: 'TensorRT-LLM',
    status: 400,
    body: {
      object: 'error',
      message: 'The sum of prompt length (5000.0), query length (0) should not exceed max_num_tokens (4096)',
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    says: '(5000.0)',
  },
  {
    server: 'Triton',
    status: 500,
    body: {
      error:
        'Prompt length (5000) exceeds maximum input length (4096). Set log level to info and check TRTGptModel logs',
    },
    says: 'Prompt length (5000)',
  },
  {
    server: 'LiteLLM',
    status: 400,
    body: error({
      message:
        'litellm.ContextWindowExceededError: litellm.BadRequestError: BedrockException: Context Window Error - {"message":"The model returned the following errors: Input is too long for requested model."}',
      type: null,
      param: null,
      code: '400',
    }),
    says: 'BedrockException',
  },
  {
    server: 'LiteLLM, as a detail',
    status: 400,
    body: { detail: 'ContextWindowExceededError: the window is full' },
    says: 'ContextWindowExceededError: the window is full',
  },
  {
    server: 'OpenRouter',
    status: 400,
    body: error({
      message:
        'This endpoint\'s maximum context length is 131072 tokens. However, you requested about 150000 tokens (140000 of text input, 10000 in the output). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.',
      code: 400,
    }),
    says: '150000 tokens',
  },
  {
    server: 'OpenRouter, in the words of Messages',
    status: 400,
    body: wrapped(inMessages('invalid_request_error', 'prompt is too long: 5 tokens > 4 maximum'), 'Anthropic'),
    says: 'prompt is too long: 5 tokens > 4 maximum',
  },
  {
    server: 'OpenRouter, in the words of Bedrock',
    status: 400,
    body: wrapped({ message: 'Input is too long for requested model.' }, 'Amazon Bedrock'),
    says: 'Input is too long for requested model.',
  },
  {
    server: 'OpenRouter, in the words of llama.cpp',
    status: 502,
    body: wrapped(error({ message: 'no room', type: 'exceed_context_size_error' }), 'Own'),
    says: 'no room',
  },
  {
    server: 'OpenRouter, as text',
    status: 400,
    body: wrapped('Input length 131393 exceeds the maximum allowed input length of 131040 tokens.', 'Poolside'),
    says: 'Input length 131393',
  },
  {
    server: 'Groq',
    status: 400,
    body: error({
      message: 'Please reduce the length of the messages or completion.',
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    }),
    says: 'Please reduce the length of the messages',
  },
  {
    server: 'Mistral',
    status: 400,
    body: {
      object: 'error',
      message: 'Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
      type: 'invalid_request_prompt',
      param: null,
      code: '3051',
    },
    says: 'Prompt contains 40000 tokens',
  },
  {
    server: 'DeepSeek',
    status: 400,
    body: error({
      message:
        "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (132000 in the messages, 8000 in the completion). Please reduce the length of the messages or completion.",
      type: 'invalid_request_error',
      param: null,
      code: 'invalid_request_error',
    }),
    says: '140000 tokens',
  },
  {
    server: 'Moonshot',
    status: 400,
    body: error({
      message: 'Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)',
      type: 'invalid_request_error',
    }),
    says: '(requested: 270000)',
  },
  {
    server: 'xAI',
    status: 400,
    body: {
      code: 'Client specified an invalid argument',
      error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    },
    says: '537812 tokens',
  },
  {
    server: 'GitHub Copilot',
    status: 400,
    body: error({
      message: 'prompt token count of 135355 exceeds the limit of 128000',
      code: 'model_max_prompt_tokens_exceeded',
    }),
    says: '135355',
  },
  {
    server: 'Cohere',
    status: 400,
    body: {
      message:
        'too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs. The limit for this model is 128000 tokens.',
    },
    says: '11326 tokens',
  },
  {
    server: 'Cohere, older',
    status: 400,
    body: {
      message:
        'too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt, or enabling prompt truncating.',
    },
    says: 'received 4292',
  },
  {
    server: 'Together',
    status: 422,
    body: error({
      message:
        'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens and 512 `max_new_tokens`',
      type: 'invalid_request_error',
      param: 'max_tokens',
      code: null,
    }),
    says: '4097',
  },
  {
    server: 'Fireworks',
    status: 400,
    body: error({
      object: 'error',
      type: 'invalid_request_error',
      code: 'invalid_request_error',
      message: 'The prompt is too long: 134000, model maximum context length: 131071',
    }),
    says: '134000',
  },
  {
    server: 'Cerebras',
    status: 400,
    body: {
      message: 'Please reduce the length of the messages or completion. Current length is 8373 while limit is 8192',
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    },
    says: '8373',
  },
  {
    server: 'Zhipu',
    status: 400,
    body: error({ code: '1261', message: 'Prompt exceeds max length' }),
    says: 'Prompt exceeds max length',
  },
  { server: 'Zhipu, in Chinese', status: 400, body: error({ code: '1261', message: 'Prompt 超长' }), says: '超长' },
  {
    server: 'Zhipu, older',
    status: 400,
    body: error({ code: '1210', message: 'tokens in request more than max tokens allowed' }),
    says: 'tokens in request',
  },
  {
    server: 'Z.ai, by its name',
    status: 400,
    body: error({ code: 'model_context_window_exceeded', message: 'stopped' }),
    says: 'stopped',
  },
  {
    server: 'DashScope',
    status: 400,
    body: error({
      code: 'invalid_parameter_error',
      message: '<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]',
      param: null,
      type: 'invalid_request_error',
    }),
    says: '[1, 983616]',
  },
  {
    server: 'DashScope, its own API',
    status: 400,
    body: { code: 'InvalidParameter', message: 'Range of input length should be [1, 30000]', request_id: 'r-1' },
    says: '[1, 30000]',
  },
  {
    server: 'MiniMax',
    status: 400,
    body: { base_resp: { status_code: 2013, status_msg: 'invalid params, context window exceeds limit' } },
    says: 'context window exceeds limit',
  },
  {
    server: 'Perplexity',
    status: 400,
    body: error({
      message: 'The prompt is too long for the model, please shorten it.',
      type: 'bad_request',
      code: 400,
    }),
    says: 'please shorten it',
  },
  {
    server: 'Databricks',
    status: 400,
    body: { error_code: 'BAD_REQUEST', message: '{"message":"Input is too long for requested model."}' },
    says: 'Input is too long for requested model.',
  },
  {
    server: 'HuggingFace',
    status: 422,
    body: {
      error: {
        message: 'Input validation error: `inputs` must have less than 32768 tokens. Given: 40000',
        http_status_code: 422,
      },
    },
    says: 'Given: 40000',
  },
  {
    server: 'watsonx',
    status: 400,
    body: {
      errors: [
        {
          code: 'invalid_input_argument',
          message:
            "Invalid input argument for Model 'granite': the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
        },
      ],
      trace: 'abc',
      status_code: 400,
    },
    says: 'the number of input tokens 5000',
  },
  {
    server: 'NVIDIA NIM',
    status: 400,
    body: {
      object: 'error',
      message:
        "This model's maximum context length is 4096 tokens. However, you requested 6379 tokens (6029 in the messages, 350 in the completion). Please reduce the length of the messages or completion.",
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    says: '6379 tokens',
  },
  {
    server: 'DwarfStar',
    status: 400,
    body: error({ message: 'Prompt has 9,000 tokens, but the configured context size is 8,192 tokens' }),
    says: '9,000 tokens',
  },
  {
    server: 'mlx-serve',
    status: 400,
    body: inMessages('invalid_request_error', 'Prompt exceeds maximum context length'),
    says: 'Prompt exceeds maximum context length',
  },
  {
    server: 'Nova',
    status: 400,
    body: {
      message:
        'Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.',
    },
    says: 'Number of input tokens',
  },
  {
    server: 'GitHub Models',
    status: 413,
    body: error({
      code: 'tokens_limit_reached',
      message: 'Request body too large for gpt-4o model. Max size: 8000 tokens.',
      details: 'Request body too large for gpt-4o model. Max size: 8000 tokens.',
    }),
    says: '8000 tokens',
  },
  {
    server: 'Volcengine',
    status: 400,
    body: error({
      code: 'InvalidParameter',
      message: 'Total tokens of image and text exceed max message tokens. Request id: 0217',
      param: '',
      type: 'BadRequest',
    }),
    says: 'max message tokens',
  },
  {
    server: 'Cloudflare',
    status: 400,
    body: {
      success: false,
      errors: [
        {
          code: 5021,
          message:
            'AiError: The estimated number of input and maximum output tokens (33000) exceeded this model context window limit (24000).',
        },
      ],
    },
    says: '(33000)',
  },
  {
    server: 'TabbyAPI',
    status: 400,
    body: error({ message: 'Prompt length 5000 is greater than max_seq_len 4096' }),
    says: '5000',
  },
  {
    server: 'llama-cpp-python',
    status: 400,
    body: error({
      message:
        "This model's maximum context length is 4096 tokens, however you requested 5000 tokens (4900 in your prompt; 100 for the completion).",
      type: 'invalid_request_error',
      code: 'context_length_exceeded',
    }),
    says: '5000 tokens',
  },
  {
    server: 'Baidu',
    status: 400,
    body: { error_code: 336_007, error_msg: 'prompt tokens too long' },
    says: 'too long',
  },
  {
    server: 'Tencent',
    status: 400,
    body: { Response: { Error: { Code: 'X', Message: '输入内容超过模型上限' } } },
    says: '超过',
  },
  {
    server: 'a proxy',
    status: 413,
    body: 'The conversation is too long for this model',
    says: 'too long for this model',
  },
  {
    server: 'a proxy that puts an error into the message of another',
    status: 400,
    body: error({ message: JSON.stringify(error({ message: 'nested: prompt is too long', code: 'x' })) }),
    says: 'nested: prompt is too long',
  },
  {
    server: 'a proxy that checks bodies',
    status: 400,
    body: { detail: { error: { message: 'context length exceeded', code: 400 } } },
    says: 'context length exceeded',
  },
  {
    server: 'a proxy that limits, although the window is full',
    status: 429,
    body: error({ message: "This model's maximum context length is 4096 tokens, your input has 5000", code: 429 }),
    says: 'your input has 5000',
  },
  {
    server: 'Perplexity, with the answer',
    status: 400,
    body: error({
      message: "The total number of tokens (prompt + max_tokens) 140000 exceeds the model's maximum of 127072",
      type: 'invalid_request',
      code: 400,
    }),
    says: '140000',
  },
  {
    server: 'DeepInfra',
    status: 400,
    body: error({ message: 'The sum of prompt and answer exceeds the model limit of 131072 tokens' }),
    says: '131072',
  },
  {
    server: 'DeepInfra, in detail',
    status: 400,
    body: { detail: { error: 'max sequence length exceeded: 40000 > 32768' } },
    says: '40000',
  },
  {
    server: 'SambaNova',
    status: 400,
    body: error({
      message:
        'Requested generation length 100 is not possible! The provided prompt is 8192 tokens long, so generating 100 tokens requires a sequence length of 8292, but the maximum supported sequence length is just 8192!',
      type: 'invalid_request_error',
    }),
    says: '8292',
  },
  {
    server: 'SiliconFlow',
    status: 400,
    body: {
      code: 20015,
      message: 'length of prompt_tokens (40000) must be less than max_seq_len (32768).',
      data: null,
    },
    says: '40000',
  },
  {
    server: 'Aphrodite',
    status: 400,
    body: {
      object: 'error',
      message: 'Prompt of length 9000 is longer than the max_model_len 8192',
      type: 'BadRequestError',
    },
    says: '9000',
  },
  {
    server: 'MLC',
    status: 400,
    body: {
      object: 'error',
      message: 'Request prompt has 5000 tokens in total, larger than the model input length limit 4096.',
      code: 400,
    },
    says: '5000 tokens',
  },
  {
    server: 'LMDeploy',
    status: 400,
    body: {
      object: 'error',
      message: 'internal error happened, status code ResponseType.INPUT_LENGTH_ERROR',
      code: 400,
    },
    says: 'INPUT_LENGTH_ERROR',
  },
  {
    server: 'LMDeploy, by its name',
    status: 400,
    body: { object: 'error', message: 'no', type: 'input_length_error', code: 400 },
    says: 'no',
  },
  {
    server: 'Bedrock, by its schema',
    status: 400,
    body: {
      message:
        'Malformed input request: expected maxLength: 100000, actual: 200000, please reformat your input and try again.',
    },
    says: '200000',
  },
  {
    server: 'Volcengine, by its name',
    status: 400,
    body: error({ message: 'Shorten it.', code: 'OutofContextError', type: 'BadRequest' }),
    says: 'Shorten it.',
  },
  {
    server: 'Baidu, in characters',
    status: 400,
    body: { error_code: 336007, error_msg: 'the max input characters is 20000' },
    says: '20000',
  },
  {
    server: 'Cloudflare, in short',
    status: 400,
    body: { success: false, errors: [{ message: 'AiError: Max context reached', code: 3030 }], messages: [] },
    says: 'Max context',
  },
  {
    server: 'Writer',
    status: 400,
    body: { tpe: 'BadRequest', errors: [{ description: 'Context length exceeded', key: 'fail.context' }], extras: {} },
    says: 'Context length exceeded',
  },
  {
    server: 'Snowflake',
    status: 400,
    body: { message: 'max tokens of 128000 exceeded', error_code: '390142' },
    says: '128000',
  },
  {
    server: 'Yandex',
    status: 400,
    body: error({ message: 'number of input tokens must be no more than 32768, got 40000', grpcCode: 3 }),
    says: 'got 40000',
  },
  {
    server: 'FriendliAI',
    status: 400,
    body: { detail: 'prompt tokens + max_tokens should be less than or equal to 131072' },
    says: '131072',
  },
  {
    server: 'others, in other words',
    status: 400,
    body: error({ message: 'Conversation too long for the context window: 140000 tokens' }),
    says: '140000 tokens',
  },
  {
    server: 'a server with a stack of calls before its reason',
    status: 500,
    body: { detail: `${'at line 1\n'.repeat(900)}prompt is too long` },
    says: 'at line 1',
  },
];

/** Errors that look like a conversation that is too long, and are none. */
export const FALSE_FRIENDS: readonly (ServerError & { readonly means?: Meaning })[] = [
  {
    server: 'OpenAI, tokens in a minute',
    status: 429,
    body: error({
      message:
        'Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 34000. The input or output tokens must be reduced in order to run successfully.',
      type: 'tokens',
      param: null,
      code: 'rate_limit_exceeded',
    }),
    says: 'Limit 30000',
    means: 'limited',
  },
  {
    server: 'Groq, tokens in a minute',
    status: 413,
    body: error({
      message:
        'Request too large for model `llama` in organization `org` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 8000, please reduce your message size and try again.',
      type: 'tokens',
      code: 'rate_limit_exceeded',
    }),
    says: 'Limit 6000',
    means: 'limited',
  },
  {
    server: 'Bedrock, throttled',
    status: 429,
    body: {
      __type: 'com.amazon.coral.service#ThrottlingException',
      message: 'Too many tokens, please wait before trying again.',
    },
    says: 'please wait',
    means: 'limited',
  },
  {
    server: 'a quota that speaks of the window',
    status: 429,
    body: error({ message: 'Too many tokens for your context window quota.', type: 'tokens', code: null }),
    says: 'quota',
  },
  {
    server: 'Gemini, its free tier',
    status: 429,
    body: error({
      code: 429,
      message:
        'You exceeded your current quota. * Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000. Input token count exceeds it.',
      status: 'RESOURCE_EXHAUSTED',
    }),
    says: 'Quota exceeded',
    means: 'limited',
  },
  {
    server: 'Messages API, input tokens in a minute',
    status: 429,
    body: inMessages(
      'rate_limit_error',
      'This request would exceed the rate limit for your organization of 40,000 input tokens per minute.',
    ),
    says: '40,000',
    means: 'limited',
  },
  {
    server: 'OpenAI, the answer',
    status: 400,
    body: error({
      message:
        'max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000.',
      type: 'invalid_request_error',
      param: 'max_tokens',
      code: 'invalid_value',
    }),
    says: 'at most 16384',
  },
  {
    server: 'Messages API, the answer',
    status: 400,
    body: inMessages(
      'invalid_request_error',
      'max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens',
    ),
    says: '100000 > 64000',
  },
  {
    server: 'Groq, the answer',
    status: 400,
    body: error({
      message:
        '`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model',
      type: 'invalid_request_error',
    }),
    says: '8192',
  },
  {
    server: 'vLLM, an answer longer than the window',
    status: 400,
    body: error({
      message:
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 tokens and your request has 100 input tokens (8192 > 4096 - 100). (parameter=max_tokens, value=8192)",
      type: 'BadRequestError',
      param: 'max_tokens',
      code: 400,
    }),
    says: '8192',
  },
  {
    server: 'vLLM, an answer as long as the window',
    status: 400,
    body: {
      object: 'error',
      message:
        "This model's maximum context length is 6048 tokens. However, you requested 6616 tokens (568 in the messages, 6048 in the completion). Please reduce the length of the messages or completion.",
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    says: '6616 tokens',
  },
  {
    server: 'Messages API, an image',
    status: 400,
    body: inMessages(
      'invalid_request_error',
      'messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes',
    ),
    says: 'image exceeds 5 MB maximum',
  },
  {
    server: 'Messages API, images',
    status: 400,
    body: inMessages(
      'invalid_request_error',
      'image dimensions exceed max allowed size for many-image requests: 2000 pixels',
    ),
    says: '2000 pixels',
  },
  {
    server: 'OpenAI, a text',
    status: 400,
    body: error({
      message:
        "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760, but got a string with length 12000000 instead.",
      type: 'invalid_request_error',
      param: 'messages[0].content',
      code: 'string_above_max_length',
    }),
    says: 'string too long',
  },
  {
    server: 'Messages API, bytes',
    status: 413,
    body: inMessages('request_too_large', 'Request exceeds the maximum size'),
    says: 'Request exceeds the maximum size',
  },
  {
    server: 'OpenRouter, with too little credit for the prompt',
    status: 402,
    body: error({
      message: 'Prompt tokens limit exceeded: 20000 > 5000. To increase, visit https://openrouter.ai/settings/credits',
      code: 402,
    }),
    says: '20000 > 5000',
  },
  {
    server: 'a lower bound',
    status: 400,
    body: error({ message: 'Input length must be greater than 0' }),
    says: 'greater than 0',
  },
  {
    server: 'an allowance',
    status: 400,
    body: error({ message: 'prompt tokens exceed the daily allowance' }),
    says: 'daily',
  },
  {
    server: 'vLLM, which repeats the request',
    status: 400,
    body: {
      object: 'error',
      message: "[{'type': 'missing', 'msg': 'Field required', 'input': {'content': 'prompt is too long'}}]",
      code: 400,
    },
    says: 'Field required',
  },
  {
    server: 'pydantic, which repeats the request',
    status: 400,
    body: "1 validation error for Body\nx\n  Field required [type=missing, input_value={'content': 'prompt is too long'}, input_type=dict]",
    says: 'Field required',
  },
  {
    server: 'a server that repeats a long request',
    status: 400,
    body: `No such field in: ${'x'.repeat(5000)} prompt is too long ${'y'.repeat(5000)}`,
    says: 'No such field',
  },
];

/** Other meanings, which decide where a request goes next. */
export const OTHER_MEANINGS: readonly (ServerError & { readonly means: Meaning })[] = [
  {
    server: 'Messages API',
    status: 400,
    body: inMessages('invalid_request_error', 'Your credit balance is too low to access the API.'),
    says: 'credit balance',
    means: 'payment',
  },
  {
    server: 'OpenAI',
    status: 429,
    body: error({
      message: 'You exceeded your current quota.',
      type: 'insufficient_quota',
      code: 'insufficient_quota',
    }),
    says: 'quota',
    means: 'payment',
  },
  {
    server: 'DeepSeek',
    status: 402,
    body: error({ message: 'Insufficient Balance', type: 'unknown_error', code: 'invalid_request_error' }),
    says: 'Insufficient Balance',
    means: 'payment',
  },
  {
    server: 'Moonshot',
    status: 429,
    body: error({ message: 'Your account is suspended', type: 'exceeded_current_quota_error' }),
    says: 'suspended',
    means: 'payment',
  },
  {
    server: 'Zhipu',
    status: 429,
    body: error({ code: '1113', message: '余额不足或无可用资源包,请充值。' }),
    says: '余额不足',
    means: 'payment',
  },
  {
    server: 'DashScope',
    status: 400,
    body: { code: 'Arrearage', message: 'Access denied, please make sure your account is in good standing.' },
    says: 'good standing',
    means: 'payment',
  },
  {
    server: 'OpenRouter, in the words of Messages',
    status: 502,
    body: wrapped(inMessages('overloaded_error', 'Overloaded'), 'Anthropic'),
    says: 'Overloaded',
    means: 'overloaded',
  },
  {
    server: 'OpenRouter',
    status: 400,
    body: error({ message: 'vendor/nothing is not a valid model ID', code: 400 }),
    says: 'valid model ID',
    means: 'model_missing',
  },
  {
    server: 'Ollama',
    status: 404,
    body: error({ message: 'model "x" not found, try pulling it first' }),
    says: 'pulling',
    means: 'model_missing',
  },
  {
    server: 'DeepSeek',
    status: 400,
    body: error({ message: 'Model Not Exist' }),
    says: 'Not Exist',
    means: 'model_missing',
  },
  {
    server: 'Azure',
    status: 404,
    body: error({ code: 'DeploymentNotFound', message: 'The API deployment for this resource does not exist.' }),
    says: 'deployment',
    means: 'model_missing',
  },
  {
    server: 'Bedrock',
    status: 400,
    body: { message: 'The provided model identifier is invalid.' },
    says: 'identifier',
    means: 'model_missing',
  },
  {
    server: 'Moonshot',
    status: 429,
    body: error({
      message: 'The engine is currently overloaded, please try again later',
      type: 'engine_overloaded_error',
    }),
    says: 'overloaded',
    means: 'overloaded',
  },
  {
    server: 'Gemini',
    status: 500,
    body: error({ code: 500, message: 'The model is overloaded. Please try again later.', status: 'INTERNAL' }),
    says: 'overloaded',
    means: 'overloaded',
  },
  {
    server: 'Gemini',
    status: 400,
    body: [
      error({
        code: 400,
        message: 'API key not valid. Please pass a valid API key.',
        status: 'INVALID_ARGUMENT',
        details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' }],
      }),
    ],
    says: 'API key not valid',
    means: 'credential',
  },
  {
    server: 'Bedrock',
    status: 403,
    body: { __type: 'UnrecognizedClientException', message: 'The security token included in the request is invalid.' },
    says: 'security token',
    means: 'credential',
  },
  {
    server: 'OpenRouter',
    status: 402,
    body: error({ message: 'Insufficient credits. Add more credits.', code: 402 }),
    says: 'Insufficient credits',
    means: 'payment',
  },
  {
    server: 'xAI',
    status: 403,
    body: {
      code: 'The caller does not have permission to execute the specified operation',
      error: 'Your team has either used all available credits or reached its monthly spending limit.',
    },
    says: 'used all available credits',
    means: 'payment',
  },
  {
    server: 'OpenAI, without its code',
    status: 403,
    body: error({ message: 'Rate limit reached for requests (RPM)', type: 'unknown' }),
    says: 'Rate limit reached',
    means: 'limited',
  },
  {
    server: 'xAI',
    status: 400,
    body: { code: 'Client specified an invalid argument', error: 'Incorrect API key provided: xa***Ab.' },
    says: 'Incorrect API key',
    means: 'credential',
  },
];

/** Reasons in shapes of their own. */
export const REASONS: readonly ServerError[] = [
  {
    server: 'FastAPI',
    status: 422,
    body: {
      detail: [
        {
          type: 'int_parsing',
          loc: ['body', 'max_tokens'],
          msg: 'Input should be a valid integer',
          input: 'the-prompt-itself',
        },
        { type: 'missing', loc: ['body', 'model'], msg: 'Field required', input: {} },
      ],
    },
    says: 'body.max_tokens: Input should be a valid integer; body.model: Field required',
  },
  { server: 'FastAPI, an object', status: 400, body: { detail: { message: 'Not so.' } }, says: 'Not so.' },
  {
    server: 'FastAPI, by field',
    status: 400,
    body: { detail: { model: ['is unknown'] } },
    says: 'detail.model: is unknown',
  },
  {
    server: 'vLLM, in many words',
    status: 400,
    body: { object: 'error', message: `Validation: ${'x'.repeat(1500)}`, type: 'BadRequestError', code: 400 },
    says: `Validation: ${'x'.repeat(900)}`,
  },
  { server: 'AWS', status: 403, body: { Message: 'User is not authorized to perform this.' }, says: 'not authorized' },
  {
    server: 'Cloudflare',
    status: 400,
    body: { success: false, errors: [{ code: 5006, message: 'Bad shape' }] },
    says: 'Bad shape',
  },
  { server: 'an error inside of a reason', status: 503, body: { error: { detail: 'Busy.' } }, says: 'Busy.' },
  { server: 'several errors', status: 400, body: { errors: ['One.', { message: 'Two.' }] }, says: 'One.; Two.' },
  {
    server: 'axum',
    status: 422,
    body: 'Failed to deserialize the JSON body',
    says: 'Failed to deserialize the JSON body',
  },
  {
    server: 'Envoy',
    status: 503,
    body: 'upstream connect error or disconnect/reset before headers',
    says: 'upstream connect error',
  },
  {
    server: 'a page',
    status: 502,
    body: '<!doctype html><html><head><title>502 Bad Gateway</title></head><body>x</body></html>',
    says: '502 Bad Gateway',
  },
  {
    server: 'XML',
    status: 403,
    body: '<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>',
    says: 'Request has expired',
  },
  { server: 'OpenRouter', status: 502, body: wrapped('socket hang up', 'Own'), says: 'socket hang up' },
  {
    server: 'RFC 9457',
    status: 400,
    body: { title: 'Bad Request', detail: 'No such field.', status: 400 },
    says: 'No such field.',
  },
  {
    server: 'Spring',
    status: 400,
    body: { status: 400, error: 'Bad Request', message: 'Wrong place' },
    says: 'Wrong place',
  },
  {
    server: 'Azure',
    status: 400,
    body: error({ message: '', innererror: { message: 'Filtered.' } }),
    says: 'Filtered.',
  },
  {
    server: 'Tencent',
    status: 400,
    body: { Response: { Error: { Code: 'X', Message: 'No account' } } },
    says: 'No account',
  },
];
