import { answerBytes, answerRaw, hang, reset, type Script } from '../../support/model-provider/scripted-upstream.ts';
import { takePartly } from '../../support/telemetry/collector.ts';

const text = { 'content-type': 'text/plain' };
const ENDLESS = Buffer.alloc(64 * 1024, 'a');

const answerForEver: Script = ({ res }) => {
  res.writeHead(200, { 'content-type': 'application/x-protobuf' });
  const write = () => {
    while (!res.destroyed && res.write(ENDLESS));
  };
  res.on('drain', write);
  write();
};

const answerByteByByte: Script = ({ socket }) => {
  const bytes = 'HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n\r\n';
  let at = 0;
  const timer = setInterval(() => socket.write(bytes[at++] ?? '\n'), 100);
  socket.on('close', () => clearInterval(timer));
};

/** What a collector can do instead of accepting data. */
export const FAILURES: Readonly<Record<string, Script>> = {
  hangs: hang,
  'answers 429 and wants to be left alone for an hour': answerBytes(429, { ...text, 'retry-after': '3600' }, 'later'),
  'answers 503': answerBytes(503, text, 'away'),
  'answers 400': answerBytes(400, text, 'no'),
  'answers garbage': answerBytes(200, { 'content-type': 'application/x-protobuf' }, Buffer.alloc(5000, 0xff)),
  'answers a page': answerBytes(200, { 'content-type': 'text/html' }, '<html>Sign in</html>'),
  'answers what is no HTTP': answerRaw(Buffer.alloc(3000, 0x80)),
  'answers without an end': answerForEver,
  'answers byte by byte': answerByteByByte,
  'takes a part only': takePartly('traces', 100, 'too many'),
  'resets connections': reset,
};
