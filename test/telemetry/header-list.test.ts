import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseHeaderList } from '../../engine/telemetry/header-list.ts';

describe('headers of telemetry', () => {
  test('are read as OpenTelemetry has them, and as lines', () => {
    assert.deepEqual(parseHeaderList('Authorization=Basic%20YTpi==, x-tenant = a ,'), {
      authorization: 'Basic YTpi==',
      'x-tenant': 'a',
    });
    assert.deepEqual(parseHeaderList('Authorization: Bearer a, b\nx-tenant: 100%\n'), {
      authorization: 'Bearer a, b',
      'x-tenant': '100%',
    });
    assert.deepEqual(parseHeaderList('Authorization:Basic YTpi=='), { authorization: 'Basic YTpi==' });
    assert.deepEqual(parseHeaderList('link=http://a:1/'), { link: 'http://a:1/' });
    assert.deepEqual(parseHeaderList('rate=100%'), { rate: '100%' });
    assert.deepEqual(parseHeaderList(''), {});
  });

  test('that cannot be sent are refused without their values', () => {
    for (const [list, why] of [
      ['hunter2', /entry 1 is not a header/],
      ['a=1,=hunter2', /entry 2 is not a header/],
      ['a b=hunter2', /entry 1 is not a header/],
      ['key=hunter2%0d%0ax: y', /the value of the header key/],
      ['key=', /the value of the header key/],
      ['content-length=hunter2', /content-length is the gateway's own/],
    ] as const) {
      assert.throws(
        () => parseHeaderList(list),
        (error: Error) => why.test(error.message) && !error.message.includes('hunter2'),
      );
    }
  });
});
