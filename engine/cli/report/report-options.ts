import { type Command, Option } from 'commander';

/** Adds the options of commands that report checks: `--json`, `--strict`, `--verbose`. */
export function addReportOptions(command: Command): Command {
  return command
    .addOption(new Option('--json', 'print a JSON object with everything'))
    .addOption(new Option('--strict', 'exit with 1 for warnings, too'))
    .addOption(new Option('--verbose', 'tell everything of checks that went well, too'));
}
