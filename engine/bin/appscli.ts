import { main } from '../cli/main.ts';

await main(process.argv.slice(2), process.env, async () => (await import('../../stages/index.ts')).stages);
