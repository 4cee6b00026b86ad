import { addAudit } from './audit/command.ts';
import { addCheck } from './check/command.ts';
import { addClient } from './client/command.ts';
import { addConfig } from './config/command.ts';
import { addConsole } from './console/command.ts';
import { addCreate } from './create/command.ts';
import { addDiff } from './diff/command.ts';
import { addDoctor } from './doctor/command.ts';
import { addExplain } from './explain/command.ts';
import { addGateway } from './gateway/command.ts';
import { addInit } from './init/command.ts';
import { addLedger } from './ledger/command.ts';
import { addLimits } from './limits/command.ts';
import { type CreateProgram, makeProgram } from './make-program.ts';
import { addMigrate } from './migrate/command.ts';
import { addModels } from './models/command.ts';
import { addPeople } from './people/command.ts';
import { addPolicy } from './policy/command.ts';
import { addPrices } from './prices/command.ts';
import { addSelfcheck } from './selfcheck/command.ts';
import { addServiceTokens } from './service-tokens/command.ts';
import { addSessions } from './sessions/command.ts';
import { addSignIn } from './sign-in/command.ts';
import { addStages } from './stages/command.ts';
import { addStandIn } from './stand-in/command.ts';
import { addTest } from './test/command.ts';
import { addTokens } from './tokens/command.ts';
import { addUpstreams } from './upstreams/command.ts';
import { addUsage } from './usage/command.ts';

/** Every command, in the order help lists them. */
const COMMANDS = [
  addInit,
  addGateway,
  addMigrate,
  addStandIn,
  addCheck,
  addExplain,
  addTest,
  addStages,
  addTokens,
  addServiceTokens,
  addSessions,
  addPeople,
  addPolicy,
  addUsage,
  addModels,
  addLimits,
  addUpstreams,
  addLedger,
  addPrices,
  addAudit,
  addCreate,
  addDiff,
  addConfig,
  addConsole,
  addSignIn,
  addClient,
  addSelfcheck,
  addDoctor,
];

/** The command line as a whole. Each command's code is loaded when it runs. */
export const createProgram: CreateProgram = (options) =>
  makeProgram(options, {
    description:
      'A self-hosted gateway for model requests: who may use which model, through which upstream, for how much.',
    commands: COMMANDS,
    examples: [
      'appscli init                                  begin here',
      'appscli check --config gateway.yaml           is the configuration right?',
      'appscli gateway --config gateway.yaml         run it',
      'appscli tokens create --user alice@example.com --group all --name laptop',
      'appscli usage --since 7d                      who spent what',
    ],
  });
