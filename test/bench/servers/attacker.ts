/** One hostile caller in a process of its own: `attack` begins, `answered` reports its responses, `stop_attack` ends, too. */
import { type Attack, attack } from '../../support/identity/hostile-caller.ts';
import { serveParent } from './parent.ts';

let under_way: Attack | undefined;
const answered = () => Object.fromEntries(under_way?.statuses ?? []);

serveParent(
  {},
  {
    attack: (argument) => {
      const { names, ...aim } = argument as { url: string; token: string; model: string; names: string[] };
      under_way = attack(aim, names);
    },
    answered,
    stop_attack: () => {
      under_way?.stop();
      return answered();
    },
  },
  async () => under_way?.stop(),
);
