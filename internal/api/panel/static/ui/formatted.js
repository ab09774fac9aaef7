// Markdown into markup, with bounded work. With some texts the library needs time that grows with the square of their
// length, and with others it goes so deep that the stack ends. So its work is counted while it reads, and too much work
// ends the reading.
import { Lexer, Marked, Parser, Tokenizer } from '../vendor/marked.js'

const longest = 65_536 // characters of a text that is read at all
const most = 50_000_000 // work for one text: about one for each character that the library may look at
const deepest = 50 // lists, quotations, links and emphasis within each other
const largest = 20_000 // tags of the markup

class Work {
  constructor() {
    this.done = 0
    this.depth = 0
  }

  /** @param {number} more */
  add(more) {
    this.done += more
    if (this.done > most) throw new RangeError('too much work')
  }

  /** Adds the square of each run that a pattern finds, and returns the longest. @param {string} src @param {RegExp} runs */
  longestOf(src, runs) {
    let longest = 0
    for (const [run] of src.matchAll(runs)) {
      longest = Math.max(longest, run.length)
      this.add(run.length ** 2)
    }
    return longest
  }

  /** Does something one level deeper. @template T @param {() => T} act @returns {T} */
  within(act) {
    if (++this.depth > deepest) throw new RangeError('too deep')
    try {
      return act()
    } finally {
      this.depth--
    }
  }
}

/** Counts the steps of the reading: each step calls one of the first two before all others. */
class Counting extends Tokenizer {
  /** @param {Work} work */
  constructor(work) {
    super()
    this.work = work
    this.word = 0 // characters of the longest word of the paragraph
    this.quotation = 0
  }

  /** A step to the next block, which may end anywhere. @param {string} src */
  space(src) {
    this.work.add(2000 + src.length / 4)
    return super.space(src)
  }

  /** A step within a paragraph. Links, tags and code may end anywhere; other parts (addresses) end with their word. @param {string} src */
  escape(src) {
    this.work.add(500 + (/^(?:!?\[|[<`])/.test(src) ? src.length : Math.min(src.length, this.word)))
    return super.escape(src)
  }

  /** A list. Each line of it is examined before its content is read. @param {string} src @returns {any} */
  list(src) {
    if (/^ {0,3}(?:[*+-]|\d{1,9}[.)])/.test(src)) {
      const end = src.search(/\n[ \t]*\n(?![ \t]|[*+-]|\d)/)
      this.work.add(1000 * (end < 0 ? src : src.slice(0, end)).split('\n').length)
    }
    return super.list(src)
  }

  /** A quotation. The rest of it is copied for each part of it. @param {string} src @returns {any} */
  blockquote(src) {
    const outer = this.quotation
    this.quotation = src.length
    try {
      return super.blockquote(src)
    } finally {
      this.quotation = outer
    }
  }

  /** @param {string} src @param {string} masked @param {string} [before] */
  emStrong(src, masked, before) {
    return this.sought(src, before, super.emStrong(src, masked, before))
  }

  /** @param {string} src @param {string} masked @param {string} [before] */
  del(src, masked, before) {
    return this.sought(src, before, super.del(src, masked, before))
  }

  /**
   * Slow expressions seek where an emphasis ends: up to there or, in vain, up to the end.
   * @template {{raw: string}} T @param {string} src @param {string} before the character before it @param {T|undefined} token
   */
  sought(src, before, token) {
    const begins = /^[*_~]\S/.test(src) && !(src[0] === '_' && /[\p{L}\p{N}]/u.test(before ?? ''))
    if (token || begins) this.work.add(8 * (token?.raw ?? src).length)
    return token
  }

  /** A table. Each row gets as many cells as the header has, whether they are written or not. @param {string} src */
  table(src) {
    const [header, delimiters] = src.split('\n', 2)
    if (delimiters === undefined || !/^[ \t|:-]+$/.test(delimiters)) return super.table(src)
    const end = src.search(/\n[ \t]*\n/)
    const block = end < 0 ? src : src.slice(0, end)
    this.work.add(10 * block.length + 2000 * header.split('|').length * block.split('\n').length)
    return super.table(src)
  }
}

class Bounded extends Lexer {
  /** @param {Work} work */
  constructor(work) {
    const counting = new Counting(work)
    super({ ...defaults, tokenizer: counting })
    this.work = work
    this.counting = counting
  }

  /** @param {string} src @param {any} [tokens] @param {any} [last] @returns {any} */
  blockTokens(src, tokens, last) {
    this.work.add(this.counting.quotation)
    return this.work.within(() => super.blockTokens(src, tokens, last))
  }

  /**
   * Before its first step it searches the ends of tags, and a step may look at each character of a word for each of
   * them. Code is not read so: its lines may be long.
   * @param {string} src @param {any} [tokens]
   */
  inlineTokens(src, tokens) {
    this.work.add(src.length * (src.match(/</g)?.length ?? 0))
    const { word } = this.counting
    this.counting.word = this.work.longestOf(src, /\S+/g)
    try {
      return this.work.within(() => super.inlineTokens(src, tokens))
    } finally {
      this.counting.word = word
    }
  }
}

/** @param {string} text */
const asText = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)

const { defaults } = new Marked({
  gfm: true, breaks: true, async: false,
  renderer: {
    html: ({ text }) => asText(text),
    image: ({ text, href }) => asText(`[picture: ${text || href}]`),
  },
})

/**
 * The markup of a Markdown text, which is not safe yet. It is null where the text is too long or nested too deeply to
 * be formatted, or where the library fails; the text is then shown as it is. The work is bounded for any text.
 * @param {string} text @returns {string|null}
 */
export function formatted(text) {
  if (text.length > longest) return null
  const work = new Work()
  try {
    work.longestOf(text, /\s+/g)
    const markup = new Parser(defaults).parse(new Bounded(work).lex(text))
    return markup.split('<', largest + 1).length > largest ? null : markup
  } catch {
    return null
  }
}
