/** An element of XML, as a strict reader sees it. */
export interface XmlElement {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly elements: readonly XmlElement[];
  /** Of the element itself, without those inside. */
  readonly text: string;
}

const NAME = '[A-Za-z][A-Za-z0-9-]*';
const DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n';
// https://www.w3.org/TR/xml/#charsets
const NO_CHARACTER = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"' };

/** The root of a document of elements, attributes in double quotes, and text. Throws for all that XML does not allow there. */
export function readXml(document: string): XmlElement {
  if (!document.startsWith(DECLARATION)) throw new Error('there is no declaration');
  const wrong = NO_CHARACTER.exec(document);
  if (wrong !== null) throw new Error(`U+${wrong[0].codePointAt(0)?.toString(16)} is no character of XML`);
  let at = DECLARATION.length;

  const take = (pattern: string): RegExpExecArray | null => {
    const expression = new RegExp(pattern, 'y');
    expression.lastIndex = at;
    const found = expression.exec(document);
    if (found !== null) at = expression.lastIndex;
    return found;
  };
  const demand = (pattern: string): RegExpExecArray => {
    const found = take(pattern);
    if (found === null) throw new Error(`${pattern} is expected before ${document.slice(at, at + 40)}`);
    return found;
  };
  const element = (): XmlElement => {
    const name = demand(`<(${NAME})`)[1]!;
    const attributes: Record<string, string> = {};
    for (let found = take(` (${NAME})="([^<"]*)"`); found !== null; found = take(` (${NAME})="([^<"]*)"`)) {
      if (Object.hasOwn(attributes, found[1]!)) throw new Error(`${found[1]} stands there twice`);
      attributes[found[1]!] = readText(found[2]!);
    }
    const elements: XmlElement[] = [];
    let text = '';
    if (take('/>') !== null) return { name, attributes, elements, text };
    demand('>');
    while (take(`</${name}>`) === null) {
      const found = take('[^<]+');
      if (found === null) elements.push(element());
      else text += readText(found[0]);
    }
    return { name, attributes, elements, text };
  };
  const root = element();
  demand('\\s*$');
  return root;
}

function readText(text: string): string {
  return text.replace(/&([^;]*;?)/g, (_found, rest: string) => {
    const character = ENTITIES[rest.slice(0, -1)];
    if (!rest.endsWith(';') || character === undefined) throw new Error(`&${rest} is no entity`);
    return character;
  });
}
