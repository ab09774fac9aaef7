// What the panel makes of texts of others, whatever they are: node --test scripts/panel
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pretty } from '../../internal/api/panel/static/format.js'
import { formatted } from '../../internal/api/panel/static/ui/formatted.js'

/** @param {string} part @param {number} size */
const repeated = (part, size) => part.repeat(Math.ceil(size / part.length)).slice(0, size)

const section = `## A heading

Some *emphasis* and **strong** text with \`code\`, a [link](https://example.com/) and snake_case_names, and more words that
make a paragraph of the usual length. Then 2 * 3 < 7, and "quotes" & other signs (as there are): it goes on for a while.

- **The first item** is here
- the second one is here
  1. within it \`one\`
  2. and two

> A quotation of a line.

| name | value | what it is |
|---|---:|---|
| a | 1 | the first |
| b | 2 | the second |

\`\`\`js
const a_b = [c * d, e_f] // <x> & y
for (const x of a_b) console.log(x)
\`\`\`

`

test('a long honest answer is formatted', () => {
  const texts = [section, '**Key**: a value with `code` in a line of its own.\n', 'A *word* and a **pair** of `them`. ', '- an item with **more**\n',
    '$a_1 * b_2$ and 2 * 3 = 6 and f(x) < g(x) && h[0] != "y".\n\n', '| a | b | c |\n']
  for (const text of texts) {
    for (const size of [1000, 20_000]) {
      const markup = formatted(text.startsWith('|') ? `| x | y | z |\n|---|---|---|\n${repeated(text, size)}` : repeated(text, size))
      assert.ok(markup !== null, `${size} characters of ${text}`)
    }
  }
  for (const tag of ['<h2>', '<strong>', '<li>', '<ol>', '<table>', '<pre>', '<blockquote>']) assert.ok(formatted(repeated(section, 60_000))?.includes(tag), tag)
  assert.ok(formatted(`\`\`\`\n${repeated('let a_b = [c * d, e_f]; // <x> & `y`\n', 60_000)}\n\`\`\``)?.includes('<pre>'))
  const picture = `Here **it** is:\n\n\`\`\`\ndata:image/png;base64,${repeated('iVBORw0KGgo', 50_000)}\n\`\`\`\n`
  assert.ok(formatted(picture)?.includes('<strong>'), 'a long word in a block of code')
})

test('what is too long or too deep is not', () => {
  for (const text of [`${'* '.repeat(3000)}x`, '> '.repeat(3000), '1. '.repeat(3000), '_a_'.repeat(20_000), '*a '.repeat(9000) + 'a*'.repeat(9000), repeated('a ', 65_537),
    `|${'a|'.repeat(900)}\n|${'-|'.repeat(900)}\n${'|\n'.repeat(9000)}`, '- a\n'.repeat(16_000)]) {
    assert.equal(formatted(text), null, text.slice(0, 20))
  }
})

// Each of these took some library very long, or very many levels, when it was repeated.
const parts = ['* ', '> ', '>', '- ', '1. ', '> - ', '- > ', '_a_', '_a_ ', '*a*', '*a ', '_a ', '**a ', '**a*', 'a**b', '*a_ ', '***a ', '**a\n', '*a **b ***c ', '**x [a]*',
  '*a `b', '"*a"*', '**ж**ж', '_😀_', '*。*', '~~a ', '~~a~~', 'a~~b ', '~~*a ', '[', '![', '[a](', '[a](<b', '[a](b "', '[a][', '![[]()', '[![a](b)', '[\\', '[`', '[a <? ](b ',
  '`', '`a ', '``a` ', '<', '<a ', '<a b="', '<!--', '<?', '<![CDATA[', 'x <b> ', '<div>\n\n', '<pre>\n\n', '<a@', 'http://a.b ', 'www.', 'www.a)', 'a@b.', 'a-', 'a_', 'a.', '!', 'mailto:', '?.,',
  '|', '|-', 'a|b\n-|\n', '|a|\n|-|\n\n', '[a]: b\n', '[a]: b "c\n', '[a]:\n', '[a]\n', '&', '&amp;', '&#1', '#', '# ', '#\n', 'a\n===\n', 'a\n', '---\n', '* * *\n- a\n', ' ', '\t', '\u00a0', '\n', ' \n', 'a  \n',
  '    x\n\n', '```\n', '``` a\n', '~~~a\n', '- a\n', '- a\n\n', '-\n\n', '* a\n+ b\n', '* a\nb\n', '- [x] a\n', '> a\n', '> a\nb\n', '> - a\nb\n', '> > a\nb\n', '>> a\n> b\nc\n', '> * a\n* b\n',
  '> ```\n', '- # a\n', '\\', 'a\\\n', 'a', '漢', '1) a\n2. b\n', `${'- '.repeat(20)}a\nb\n`, `${'>'.repeat(40)} a\nb\n`]
/** @type {Array<(size: number) => string>} */
const shapes = [
  ...parts.map((part) => (/** @type {number} */ size) => repeated(part, size)),
  ...parts.map((part) => (/** @type {number} */ size) => repeated(part, size) + 'x'),
  (size) => '['.repeat(size / 2) + ']'.repeat(size / 2),
  (size) => `[${repeated('<?', size)}](b)`,
  (size) => `[a](${repeated(' ', size)}`,
  (size) => `x <a${repeated(' ', size)}`,
  (size) => `# a${repeated(' ', size)}b`,
  (size) => `http://a.b${repeated('&a;', size)}`,
  (size) => `${repeated('a', size)}@`,
  (size) => '*a '.repeat(size / 6) + ' a*'.repeat(size / 6),
  (size) => '[*a '.repeat(size / 10) + '*](b)'.repeat(size / 10),
  (size) => `|${'a|'.repeat(size / 40)}\n|${'-|'.repeat(size / 40)}\n${repeated('a\n', 0.9 * size)}`,
  (size) => `|${'a|'.repeat(size / 6)}\n|${'-|'.repeat(size / 6)}\n${'|'.repeat(size / 6)}`,
  (size) => `[a]: b\n\n${repeated('[x [a] y][a] ', size)}`,
  (size) => `* a\n${repeated('b\n', size)}`,
  (size) => `* a\n${repeated('  b\n', size)}`,
  (size) => `> a\n${repeated('b\n', size)}`,
  (size) => `${'> - '.repeat(12)}a\n${repeated('b\n', size)}`,
  (size) => Array.from({ length: Math.sqrt(size) }, (_, i) => `${' '.repeat(2 * i)}- a\n`).join(''),
  (size) => Array.from({ length: Math.sqrt(2 * size) }, (_, i) => `${'`'.repeat(i + 1)} a `).join(''),
]

/** The processor's time of an act in ms, whatever else the machine does. @param {() => void} act */
function work(act) {
  const before = process.cpuUsage()
  act()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

// Unbounded, several of these take a hundred times as long, or longer than anybody waits.
test('no text takes much longer than an honest one', () => {
  const honest = repeated(section, 60_000)
  formatted(honest)
  const usual = Math.max(5, work(() => formatted(honest)))
  for (const shape of shapes) {
    for (const size of [6000, 20_000, 60_000]) {
      const text = shape(size)
      const took = work(() => formatted(text))
      assert.ok(took < 60 * usual, `${JSON.stringify(text.slice(0, 30))}, ${size}: ${took} ms of work, an honest text ${usual}`)
    }
  }
})

test('JSON is indented where that does not blow it up', () => {
  assert.equal(pretty({ a: [1, '{[,'] }), '{\n  "a": [\n    1,\n    "{[,"\n  ]\n}')
  assert.equal(pretty(undefined), '')
  const deep = JSON.parse(`${'['.repeat(64)}${'1,'.repeat(100_000)}1${']'.repeat(64)}`)
  assert.ok(pretty(deep).length < 300_000)
})
