/** One hostile caller in a process of its own: `attack` begins, `stop_attack` ends and tells what it was answered. */
import { type Attack, attack } from '../../support/identity/hostile-caller.ts';
import { serveParent } from './parent.ts';

let under_way: Attack | undefined;

serveParent(
  {},
  {
    attack: (argument) => {
      const { names, ...aim } = argument as { url: string; token: string; model: string; names: string[] };
      under_way = attack(aim, names);
    },
    stop_attack: () => {
      under_way?.stop();
      return Object.fromEntries(under_way?.statuses ?? []);
    },
  },
  async () => under_way?.stop(),
);
