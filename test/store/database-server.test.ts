import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import { createTestDatabase } from '../support/database.ts';
import { open } from '../support/open-database.ts';

describe('a wrong database URL', () => {
  /** Stands for a password. */
  const secret = 'hunter2hunter2';
  const hides = (message: RegExp) => (error: Error) => {
    assert.match(error.message, message);
    assert.ok(!JSON.stringify([error, error.message, error.stack, String(error.cause)]).includes(secret));
    return true;
  };

  test('that is missing names the variable', async () => {
    await assert.rejects(open(undefined), {
      name: 'StartError',
      exit_code: 78,
      message:
        /^the environment variable TEST_DATABASE_URL, named by database\.postgres\.url_env, is not set; expected postgres:/,
    });
  });

  for (const [what, url] of [
    ['no URL at all', secret],
    ['a URL of something else', `mysql://u:${secret}@h/d`],
    ['a URL without a database', `postgres://u:${secret}@h`],
    ['a password with a slash', `postgres://u:1/${secret}@h/d`],
    ['a certificate that is not there', `postgres://u:${secret}@h/d?sslrootcert=/missing.pem`],
  ] as const) {
    test(`is refused without being printed: ${what}`, async () => {
      await assert.rejects(
        open(url),
        hides(/TEST_DATABASE_URL.*; expected postgres:\/\/user:password@host:5432\/database$/),
      );
      await assert.rejects(open(url, { wait: 'in-background' }), hides(/TEST_DATABASE_URL/));
    });
  }

  test('with a wrong password says that the login was refused', async () => {
    const { url, drop } = await createTestDatabase();
    const wrong = new URL(url);
    wrong.password = secret;
    await assert.rejects(open(wrong.href), hides(/the login was refused .*correct the URL in TEST_DATABASE_URL$/));
    const gone = new URL(url);
    gone.pathname = '/no_such_database';
    await assert.rejects(open(gone.href), hides(/the database does not exist/));
    await drop();
  });

  test('that leads to something other than PostgreSQL is an error, not a crash', async () => {
    const server = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    await assert.rejects(open(`postgres://u:${secret}@127.0.0.1:${port}/d`), hides(/^cannot use the database at/));
    server.close();
  });
});
