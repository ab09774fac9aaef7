// The differences between two versions of an object, member by member and, in texts, line by line.
import { html } from '../html.js'
import { pretty } from '../format.js'
import { Empty, Plain } from './parts.js'

/** @param {{before: any, after: any, ignore?: string[]}} p */
export function Difference({ before, after, ignore = [] }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter((n) => !ignore.includes(n))
  const changed = names.filter((n) => JSON.stringify(before?.[n]) !== JSON.stringify(after?.[n]))
  if (changed.length === 0) return html`<${Empty}>They are the same.</${Empty}>`
  return html`${changed.map((n) => html`<h3><code>${n}</code></h3><${Change} key=${n} name=${n} before=${text(before?.[n])} after=${text(after?.[n])} />`)}`
}

/** @param {{name: string, before: string, after: string}} p */
function Change({ name, before, after }) {
  const all = lines(before, after)
  if (!all) {
    return html`<p class="small">It has too many lines to compare.</p>
      <${Plain} text=${before} code="${name} before" /><${Plain} text=${after} code="${name} after" />`
  }
  return html`<pre class="diff" tabindex="0" role="region" aria-label="Change of ${name}">${all.map(([kind, line]) =>
    kind === '-' ? html`<del><span class="unseen">removed: </span>− ${line}</del>` : kind === '+' ? html`<ins><span class="unseen">added: </span>+ ${line}</ins>` : html`<span>  ${line}</span>`)}</pre>`
}

/** @param {any} v */
const text = (v) => (v === undefined ? '' : typeof v === 'string' ? v : pretty(v))

/** The longest common lines stay; the others went or came. Null: there are too many. @param {string} a @param {string} b @returns {Array<[string, string]>|null} */
export function lines(a, b) {
  const x = a === '' ? [] : a.split('\n')
  const y = b === '' ? [] : b.split('\n')
  if (x.length * y.length > 1e6 || x.length + y.length > 4000) return null
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
