import { type Command, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { baseUrl, examples, json } from '../options.ts';

type Finish = (exit_code: number) => void;

/** `appscli login|token|whoami|logout`. */
export function addSignIn(program: Command, context: CommandContext, finish: Finish): void {
  for (const add of [addLogin, addToken, addWhoami, addLogout]) add(program, context, finish);
}

function addLogin(program: Command, context: CommandContext, finish: Finish): void {
  program
    .command('login')
    .description('sign in at a gateway with your browser')
    .addOption(baseUrl())
    .option('--no-browser', 'only show the page to open')
    .addOption(json('print a JSON object with who signed in where'))
    .addHelpText(
      'after',
      `
Shows a code and opens a page of the gateway, where you sign in as your company
does. What comes back is kept in $APPSCLI_CREDENTIALS, or in
appscli/credentials.json below $XDG_CONFIG_HOME (~/.config), readable by you
alone. Exits 1 when the sign-in is refused, takes too long or is stopped, 69
when the gateway can't be reached.
${examples('appscli login --base-url https://gateway.example.com', 'appscli login --no-browser          on a machine without one')}`,
    )
    .action(async (given) => finish(await (await import('./login.ts')).login(context, given)));
}

function addToken(program: Command, context: CommandContext, finish: Finish): void {
  program
    .command('token')
    .description('print a token that is valid now; a key helper for clients')
    .addOption(baseUrl())
    .addOption(json('print a JSON object with the token and the end of its life'))
    .addOption(new Option('--headers', 'print a JSON object with the header that holds it').conflicts('json'))
    .addHelpText(
      'after',
      `
Renews the token when it has not long to live; any number of calls at once
renew it once. Exits 1 when you have to sign in again, 69 when it has expired
and the gateway can't be reached.
${examples(
  'appscli token --base-url https://gateway.example.com',
  'curl -H "Authorization: Bearer $(appscli token)" $APPSCLI_BASE_URL/v1/models',
)}`,
    )
    .action(async (given) => finish(await (await import('./token.ts')).token(context, given)));
}

function addWhoami(program: Command, context: CommandContext, finish: Finish): void {
  program
    .command('whoami')
    .description('who you are to a gateway: groups, team, roles, models')
    .addOption(baseUrl())
    .addOption(json('print what the gateway says as JSON'))
    .addHelpText('after', examples('appscli whoami', 'appscli whoami --base-url https://gateway.example.com --json'))
    .action(async (given) => finish(await (await import('./whoami.ts')).whoami(context, given)));
}

function addLogout(program: Command, context: CommandContext, finish: Finish): void {
  program
    .command('logout')
    .description('end your sign-in, at the gateway and on this machine')
    .addOption(baseUrl())
    .addOption(new Option('--all', 'at every gateway you are signed in at').conflicts('baseUrl'))
    .addHelpText(
      'after',
      `
Exits 69 when a gateway can't be reached: the sign-in is then forgotten on this
machine only.
${examples('appscli logout --base-url https://gateway.example.com', 'appscli logout --all')}`,
    )
    .action(async (given) => finish(await (await import('./logout.ts')).logout(context, given)));
}
