import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import { type Request, type Response, Router } from 'express';
import { StageError } from '../../base/contract/errors.ts';
import { PACKAGE_ROOT } from '../../base/kit/package-root.ts';
import { REQUEST_ID_HEADER } from '../../pipeline/run/headers.ts';
import { identityOf } from './request-identity.ts';
import { methodNotAllowed, sendError } from './send-error.ts';

/** Security headers below `/console` (W3C Content Security Policy 3, Trusted Types). */
export const CONSOLE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "font-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

const CONSOLE_PATH = '/console';

const NO_SUCH_FILE = new StageError('path_not_found', 'File not found; reload the console.');
const BUILT = join(PACKAGE_ROOT, 'dist/console');
const START = 'index.html';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const CODINGS = [
  { name: 'br', end: '.br' },
  { name: 'gzip', end: '.gz' },
];

type Files = ReadonlyMap<string, Buffer>;

let files: Files | undefined;

/** Reads the files once: a running gateway keeps the files it started with. */
function builtFiles(): Files {
  if (files !== undefined) return files;
  const entries = existsSync(BUILT) ? readdirSync(BUILT, { recursive: true, withFileTypes: true }) : [];
  const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  files = new Map(paths.map((path) => [relative(BUILT, path).replaceAll(sep, '/'), readFileSync(path)]));
  return files;
}

/**
 * Serves the console application: its files, and its start page at every other path below `/console`. Without a build the page
 * explains how to build it. The path of `server.public_url` is the prefix of the file URLs.
 */
export function consoleFiles(public_url: string): Router {
  const built = builtFiles();
  const prefix = new URL(public_url).pathname.replace(/\/+$/, '');
  const start = built.get(START)?.toString('utf8').replaceAll(`"${CONSOLE_PATH}/`, `"${prefix}${CONSOLE_PATH}/`);
  const router = Router({ caseSensitive: true, strict: true });
  router.use(CONSOLE_PATH, (req, res, next) => {
    res.setHeaders(new Headers({ ...CONSOLE_HEADERS, [REQUEST_ID_HEADER]: identityOf(res).request_id }));
    if (req.method === 'GET' || req.method === 'HEAD') return next();
    sendError(res, CONSOLE_PATH, methodNotAllowed(req, 'GET, HEAD'));
  });
  router.use(CONSOLE_PATH, (req, res) => {
    const name = req.path.slice(1);
    const bytes = name === START ? undefined : built.get(name);
    if (bytes !== undefined) return sendFile(req, res, name, built);
    if (extname(name) !== '') return void sendError(res, CONSOLE_PATH, NO_SUCH_FILE);
    const text = start ?? NOT_BUILT;
    const headers = { 'content-type': TYPES['.html'], 'cache-control': 'no-store' };
    res.writeHead(start === undefined ? 503 : 200, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text);
  });
  return router;
}

/** File names below assets/ contain a hash of the content; browsers request the others again each day. */
function lifetimeOf(name: string): string {
  return name.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'public, max-age=86400';
}

function sendFile(req: Request, res: Response, name: string, built: Files): void {
  const coding = CODINGS.find((each) => built.has(name + each.end) && req.acceptsEncodings(each.name) !== false);
  const bytes = built.get(name + (coding?.end ?? ''))!;
  const headers = {
    'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
    'content-length': bytes.length,
    'cache-control': lifetimeOf(name),
    vary: 'accept-encoding',
    ...(coding !== undefined && { 'content-encoding': coding.name }),
  };
  res.writeHead(200, headers).end(bytes);
}

const NOT_BUILT = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The console is not built</title></head>
<body><h1>The console is not built</h1>
<p>Run <code>npm run build:console</code> where the gateway is installed from its sources, and restart it. The published package has it.</p>
</body></html>
`;
