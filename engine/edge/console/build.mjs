/**
 * Builds the console into `dist/console` and the program for developers into `dist/client`: `npm run build:console`, and
 * `npm install` by its prepare script. Plain JavaScript, as npm may run it with a Node.js that knows no TypeScript.
 * @module
 */
import { existsSync, lstatSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = import.meta.dirname;
const engine = join(root, '../..');
const outDir = join(engine, '../dist/console');

/**
 * The program that a gateway serves to developers: one file without dependencies, for the Node.js that they have. Its text depends on
 * the sources alone.
 */
async function buildClient(build) {
  await build({
    root: engine,
    configFile: false,
    logLevel: 'warn',
    ssr: { noExternal: true, target: 'node' },
    build: {
      ssr: join(engine, 'bin/client.ts'),
      outDir: join(engine, '../dist/client'),
      emptyOutDir: true,
      copyPublicDir: false,
      target: 'node20',
      minify: false,
      reportCompressedSize: false,
      rolldownOptions: {
        output: {
          format: 'es',
          entryFileNames: 'appscli.mjs',
          codeSplitting: false,
          banner: '#!/usr/bin/env node',
        },
      },
    },
  });
}

/** npm links the programs of packages alone. With this a checkout has `node_modules/.bin/appscli`, as documents call it everywhere. */
function linkProgram() {
  const modules = join(engine, '../node_modules');
  const link = join(modules, '.bin/appscli');
  // Where they are another checkout's, so is what lies in them.
  if (process.platform === 'win32' || !existsSync(modules) || lstatSync(modules).isSymbolicLink()) return;
  if (lstatSync(link, { throwIfNoEntry: false }) === undefined) symlinkSync('../../engine/bin/appscli.js', link);
}

/** What a browser may get compressed lies there compressed. */
function compressAll() {
  for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/\.(?:js|css|svg)$/.test(entry.name)) continue;
    const file = join(entry.parentPath, entry.name);
    const bytes = readFileSync(file);
    writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
    writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
  }
}

const development = await Promise.all([import('vite'), import('@vitejs/plugin-react')]).catch((error) => {
  if (error?.code !== 'ERR_MODULE_NOT_FOUND') throw error;
});
if (development === undefined) {
  console.error('The console is not built: that takes the development packages ("npm install" without --omit=dev).');
} else {
  const [{ build, runnerImport }, { default: react }] = development;
  const generator = join(engine, '../schemas/generate/console.ts');
  // Vite takes this for development unless it is told, and then all that is built after it.
  process.env.NODE_ENV = 'production';
  const { module } = await runnerImport(generator, { configFile: false });
  module.writeConsoleOperations();
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    base: '/console/',
    plugins: [react()],
    // Scripts find each other wherever the public URL puts them.
    experimental: { renderBuiltUrl: (_, { hostType }) => (hostType === 'js' ? { relative: true } : undefined) },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2023',
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
    },
  });
  compressAll();
  await buildClient(build);
  linkProgram();
}
