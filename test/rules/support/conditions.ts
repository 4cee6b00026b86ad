import fc from 'fast-check';

/** Facts of one request as rules see them. */
export interface SampleFacts {
  readonly [section: string]: Readonly<Record<string, unknown>>;
}

const MODELS = ['coder-1', 'coder-2', 'chat-1', ''];
const GROUPS = ['interns', 'research', 'eng-core'];
const PIPELINE_PROTOCOLS = ['messages', 'chat', 'models'];

const among = (...words: readonly string[]) => fc.constantFrom(...words);
const fact = (...paths: string[]) => among(...paths).map((path) => ({ var: path }));

function apply(operators: fc.Arbitrary<string>, ...operands: fc.Arbitrary<unknown>[]): fc.Arbitrary<unknown> {
  return fc.tuple(operators, fc.tuple(...operands)).map(([operator, all]) => ({ [operator]: all }));
}

const text = fc.oneof(among(...MODELS), fact('request.model', 'principal.team'));

const plain_number = fc.oneof(fc.integer({ min: -2, max: 5 }), fact('request.max_tokens', 'request.message_count'));
const sum = apply(among('+', '-', '*', '/', '%', 'min', 'max'), plain_number, plain_number);
const number = fc.oneof(plain_number, plain_number, sum, apply(among('+', '*'), sum, plain_number));

/** What is asked about the item of a list. */
const about_item = fc.oneof(
  apply(among('===', '!=='), fc.constant({ var: '' }), among(...GROUPS)),
  fc.constant({ glob: [{ var: '' }, 'eng-*'] }),
  fc.constant({ in: [{ var: '' }, ['interns', 'guests']] }),
);

const comparison = fc.oneof(
  fact('request.stream'),
  apply(among('===', '!=='), text, text),
  apply(among('===', '!=='), fact('request.protocol'), among(...PIPELINE_PROTOCOLS)),
  apply(among('<', '<=', '>', '>=', '===', '!=='), number, number),
  apply(among('<', '<='), number, number, number),
  apply(among('in'), text, fc.array(among(...MODELS), { maxLength: 10 })),
  apply(among('in'), among(...GROUPS), fact('principal.groups')),
  apply(among('glob'), fact('request.model', 'principal.team'), among('coder-*', '*-1', '*')),
  apply(among('some', 'all', 'none'), fact('principal.groups'), about_item),
  apply(among('!', '!!'), fc.oneof(text, number, fact('principal.groups'))),
);

function combination(part: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.oneof(
    part,
    apply(among('and', 'or'), part, part),
    apply(among('and', 'or'), part, part, part),
    apply(among('!', '!!'), part),
    apply(among('if'), part, part, part),
    apply(among('if'), part, part, part, part, part),
    apply(among('==='), fc.oneof(text, apply(among('if'), part, text, text)), text),
  );
}

/** Conditions without type mistakes over a few facts, of every operator of JSON-Logic on the list and `glob`. */
export const conditions: fc.Arbitrary<unknown> = combination(combination(comparison));

const request = {
  stream: fc.boolean(),
  model: among(...MODELS, 'other'),
  max_tokens: fc.integer({ min: -1, max: 4 }),
  message_count: fc.integer({ min: -1, max: 4 }),
};

/** Facts for `conditions`, any of which may be missing but the protocol, which never is. */
export const some_facts: fc.Arbitrary<SampleFacts> = fc.record({
  request: fc.record({ protocol: among(...PIPELINE_PROTOCOLS), ...request }, { requiredKeys: ['protocol'] }),
  principal: fc.record({ team: among(...MODELS), groups: fc.subarray([...GROUPS]) }, { requiredKeys: [] }),
});
