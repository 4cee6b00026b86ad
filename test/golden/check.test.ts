import { describe } from 'node:test';
import { describeGoldens, readGoldens } from './cases.ts';
import { checkChanged } from './changed-configuration.ts';

describe('a mistake in a real configuration gives one finding', () =>
  describeGoldens(readGoldens('check'), checkChanged));
