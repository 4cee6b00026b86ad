import { code, page, table } from './markdown.ts';
import { REQUIREMENTS } from './requirements/index.ts';
import type { Requirement, Section } from './requirements/requirement.ts';

/** Where to look: each file once, with its tests. */
function shownBy({ shown_by, reason, area }: Requirement): string {
  if (reason !== undefined) return area === undefined ? reason : `${area}: ${reason}`;
  return Object.entries(shown_by)
    .map(([file, names]) => `${code(file)}: ${names.map((name) => `"${name.replaceAll('`', "'")}"`).join(', ')}`)
    .join('; ');
}

function sectionPart({ title, requirements }: Section): string[] {
  const rows = requirements.map((each) => [code(each.id), each.asked, each.works, shownBy(each)]);
  const titles = ['Line', 'What is asked', 'Works', 'The test that shows it, or why not yet'];
  return [`## ${title}`, table(titles, rows, { pad_to: 120 })];
}

/** The page about what is asked of the gateway, whether it does it, and which test shows it. */
export function requirementsPage(): string {
  const all = REQUIREMENTS.flatMap(({ requirements }) => requirements);
  const having = (works: Requirement['works']) => all.filter((each) => each.works === works).length;
  const states = [`${having('yes')} work`, `${having('later')} come later`, `${having('no')} do not work`];
  return page('Requirements', [
    `What is asked of the gateway, line by line, and the tests that show it: of ${all.length} lines ${states.join(', ')}. Files are below \`test/\` in the repository; one runs with \`node test/run.ts test/FILE\`. A test in a group is \`group > test\`, and "…" stands for what a test is repeated for.`,
    'A test of its own fails when a test that is named here is gone, when a line does not work, or when one is put off that is not about telemetry, the console or the self-check.',
    ...REQUIREMENTS.flatMap(sectionPart),
    '## Clients by themselves',
    'Some of what people expect of a gateway is for clients and operators to do. The build CLI has its own commands (`-p` for a single run, `inspect`, `logout`, `update`), prefers a key in its file to a variable, that to a sign-in of its own and that to `BUILD_VENDOR_API_KEY`, and opens a browser when it finds none of them. It takes a model for 200,000 tokens long where its file says nothing. Operators put the address of sign-in behind a VPN or a proxy that people reach from their own machines, and set a limit at the account of the upstream as well.',
  ]);
}
