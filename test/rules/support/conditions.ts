import fc from 'fast-check';
import { FACTS, type FactPath, INITIAL_FACTS } from '../../../engine/base/contract/facts.ts';
import type { FactView } from '../../../engine/base/contract/services.ts';
import { factType, type Type } from '../../../engine/base/rules/check-types.ts';
import { factView } from '../../../engine/base/rules/fact-view.ts';

const PATHS = (Object.keys(FACTS) as FactPath[]).filter((path) => FACTS[path].kind !== 'object');
const MONDAY = Date.UTC(2026, 5, 1, 10);
const TEXTS = ['coder-1', 'coder-2', '10.1.2.3', ''];

const ofType = (matches: (type: Type) => boolean) => PATHS.filter((path) => matches(factType(path)));
const TEXT_FACTS = ofType(({ kind, values }) => kind === 'text' && values === undefined);
const ENUM_FACTS = ofType(({ values }) => values !== undefined);
const NUMBER_FACTS = ofType(({ kind, unit }) => kind === 'number' && unit === undefined);
const MONEY_FACTS = ofType(({ unit }) => unit === 'money');
const MOMENT_FACTS = ofType(({ unit }) => unit === 'moment');
const BOOLEAN_FACTS = ofType(({ kind }) => kind === 'boolean');
const LIST_FACTS = ofType(({ kind }) => kind === 'list');

const among = <T>(values: readonly T[]) => fc.constantFrom(...values);
const fact = (paths: readonly string[]) => among(paths).map((path) => ({ var: path }));
const call = (operators: readonly string[], ...operands: fc.Arbitrary<unknown>[]): fc.Arbitrary<unknown> =>
  fc.tuple(among(operators), fc.tuple(...operands)).map(([operator, all]) => ({ [operator]: all }));
const list = (item: fc.Arbitrary<unknown>) => fc.array(item, { minLength: 1, maxLength: 10 });

const text = fc.oneof(among(TEXTS), fact(TEXT_FACTS));
const bucket = call(['bucket'], fact(TEXT_FACTS), among(['new-model', 'b']), among([2, 100]));
const plain_number = fc.oneof(fc.integer({ min: -2, max: 5 }), fact(NUMBER_FACTS), bucket);
const computed = fc.oneof(
  call(['+', '-', '*', '/', '%', 'min', 'max'], plain_number, plain_number),
  call(['+', '*', 'min', 'max'], plain_number, plain_number, plain_number),
  call(['-', 'min', 'max'], plain_number),
);
const number = fc.oneof(plain_number, computed, call(['+', '/', 'max'], computed, plain_number));
const money = fc.oneof(
  fact(MONEY_FACTS),
  among([0, 0.5, 2]).map((usd) => ({ usd: [usd] })),
);
const pattern = among(['coder-*', '*-1', '*']);
const range = among(['10.0.0.0/8', '192.0.2.1']);
const span = among(['mon 11:00-13:00 Europe/Berlin', '00:00-24:00', 'sat-sun 09:00-17:00']);
const item = fc.constant({ var: '' });
const about_item = fc.oneof(
  call(['===', '!=='], item, among(TEXTS)),
  call(['glob'], item, pattern),
  call(['in'], item, list(among(TEXTS))),
  call(['!', '!!'], item),
);
const order = ['<', '<=', '>', '>='];
const same = ['===', '!=='];

const comparison = fc.oneof(
  fact(BOOLEAN_FACTS),
  call(same, text, text),
  among(ENUM_FACTS).chain((path) => call(same, fc.constant({ var: path }), among(factType(path).values!))),
  call([...order, ...same], number, number),
  call(['<', '<='], number, number, number),
  call([...order, ...same], fact(MONEY_FACTS), money),
  call(same, fc.oneof(fact(TEXT_FACTS), fact(NUMBER_FACTS), fact(BOOLEAN_FACTS)), fc.constant(null)),
  call(['in'], fact(TEXT_FACTS), list(among([...TEXTS, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']))),
  call(['in'], among(TEXTS), fact(LIST_FACTS)),
  call(['in'], plain_number, list(plain_number)),
  call(['glob'], fact(TEXT_FACTS), pattern, pattern),
  call(['cidr'], fact(TEXT_FACTS), range),
  call(['time_window'], fact(MOMENT_FACTS), span),
  call(['some', 'all', 'none'], fact(LIST_FACTS), about_item),
  call(['!', '!!'], fc.oneof(fact(TEXT_FACTS), fact(NUMBER_FACTS), fact(LIST_FACTS), fact(BOOLEAN_FACTS))),
);

function combination(part: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const operand = fc.oneof({ weight: 8, arbitrary: part }, fc.boolean());
  return fc.oneof(
    part,
    call(['and', 'or'], part, operand),
    call(['and', 'or'], operand, operand, part),
    call(['and', 'or', '!', '!!'], part),
    call(['if'], part, operand, operand),
    call(['if'], part, operand, part, operand, operand),
    call(same, call(['if'], part, text, text), text),
    call(order, call(['if'], part, number, number), number),
  );
}

/** Conditions that pass the load checks, of every operator and over every type of fact. */
export const conditions: fc.Arbitrary<unknown> = combination(combination(comparison));

function valuesOf(path: FactPath): fc.Arbitrary<unknown> {
  const { kind, unit, values } = factType(path);
  if (unit === 'moment') return fc.integer({ min: 0, max: 7 * 24 * 60 }).map((minutes) => MONDAY + minutes * 60_000);
  if (unit === 'money') return among([0, 500_000_000, 2_000_000_000]);
  if (kind === 'number') return fc.integer({ min: -2, max: 5 });
  if (kind === 'boolean') return fc.boolean();
  if (kind === 'list') return fc.subarray([...TEXTS]);
  return among(values ?? TEXTS);
}

/** Comparisons of one fact, or one bucket, with constants. */
function comparisonsOf(subject: unknown, constant: fc.Arbitrary<unknown>, is_number: boolean): fc.Arbitrary<unknown> {
  const one = fc.constant(subject);
  return fc.oneof(
    call(is_number ? [...order, ...same] : same, one, constant),
    call(['in'], one, list(constant)),
    call(['!', '!!'], one),
    call(same, one, fc.constant(null)),
  );
}

/** Conditions whose comparisons are mostly about the same, and so contradict or imply each other. */
export const related_conditions: fc.Arbitrary<unknown> = fc
  .oneof(
    among([...TEXT_FACTS, ...ENUM_FACTS, ...NUMBER_FACTS, ...MONEY_FACTS, ...BOOLEAN_FACTS]).map((path) =>
      comparisonsOf({ var: path }, valuesOf(path), factType(path).kind === 'number'),
    ),
    bucket.map((each) => comparisonsOf(each, fc.integer({ min: -2, max: 5 }), true)),
  )
  .chain((of_one) =>
    fc.oneof(
      combination(combination(fc.oneof({ weight: 8, arbitrary: of_one }, comparison))),
      call(['and', 'or'], of_one, of_one),
      call(['and', 'or'], of_one, of_one, of_one),
    ),
  );

/** Facts of a request, of which all but `requiredKeys` may be missing. */
export const factsWith = (requiredKeys: readonly FactPath[]): fc.Arbitrary<FactView> =>
  fc
    .record(Object.fromEntries(PATHS.map((path) => [path, valuesOf(path)])), { requiredKeys: [...requiredKeys] })
    .map((flat) => factView(Object.entries(flat)));

/** Facts of a request that began. */
export const some_facts = factsWith(INITIAL_FACTS);
