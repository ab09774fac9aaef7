// What differs between two versions of a thing, member by member and, in texts, line by line.
import { html } from '../html.js'
import { Empty } from './parts.js'

/** @param {{before: any, after: any, ignore?: string[]}} p */
export function Difference({ before, after, ignore = [] }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter((n) => !ignore.includes(n))
  const changed = names.filter((n) => JSON.stringify(before?.[n]) !== JSON.stringify(after?.[n]))
  if (changed.length === 0) return html`<${Empty}>They say the same.</${Empty}>`
  return html`${changed.map((n) => html`<h3><code>${n}</code></h3><pre class="diff" tabindex="0" role="region" aria-label="Change of ${n}">${lines(text(before?.[n]), text(after?.[n])).map(([kind, line]) =>
    kind === '-' ? html`<del><span class="unseen">removed: </span>− ${line}</del>` : kind === '+' ? html`<ins><span class="unseen">added: </span>+ ${line}</ins>` : html`<span>  ${line}</span>`)}</pre>`)}`
}

/** @param {any} v */
const text = (v) => (v === undefined ? '' : typeof v === 'string' ? v : JSON.stringify(v, null, 2))

/** The longest common lines stay; the others went or came. @param {string} a @param {string} b @returns {Array<[string, string]>} */
export function lines(a, b) {
  const x = a === '' ? [] : a.split('\n')
  const y = b === '' ? [] : b.split('\n')
  if (x.length * y.length > 1e6) return [...x.map((l) => /** @type {[string, string]} */ (['-', l])), ...y.map((l) => /** @type {[string, string]} */ (['+', l]))]
  const common = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1))
  for (let i = x.length - 1; i >= 0; i--) for (let j = y.length - 1; j >= 0; j--) {
    common[i][j] = x[i] === y[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1])
  }
  /** @type {Array<[string, string]>} */
  const out = []
  let i = 0
  let j = 0
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) { out.push([' ', x[i++]]); j++ }
    else if (j >= y.length || (i < x.length && common[i + 1][j] >= common[i][j + 1])) out.push(['-', x[i++]])
    else out.push(['+', y[j++]])
  }
  return out
}
