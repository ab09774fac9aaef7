// Lists of the API. They renew themselves in view, and further rows come when the user scrolls to the end. Of a long
// list only the rows in view are in the page.
import { useEffect, useErrorBoundary, useRef, useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { usePages } from '../live.js'
import { number } from '../format.js'
import { Empty, Loading, Problem, Stale } from './parts.js'

/**
 * @typedef {object} Rows
 * @property {any[]|null} rows null: not known yet
 * @property {any} error
 * @property {boolean} more whether there are further ones
 * @property {boolean} loading whether they are on their way
 * @property {() => void} next requests further ones
 * @property {() => Promise<void>} renew
 * @property {(from: number, to: number) => void} view sets the rows in view; all rows before the first call
 */

/** A list. @param {string|null} path @param {string} plural @param {string} id member that names a row @param {Record<string, any>} [query] @returns {Rows} */
export function useList(path, plural, id, query = {}) {
  const live = usePages(path, plural, id, query)
  const pages = /** @type {import('../live.js').Pages} */ (live.source)
  const { rows, more } = live.data.value ?? { rows: null, more: false }
  const error = live.error.value
  const loading = rows !== null && pages.wanted > rows.length && more && !error
  return {
    rows, more, error, loading, renew: () => live.renew(),
    next: () => {
      if (!rows || !more || loading) return
      pages.wanted = rows.length + 1
      live.renew()
    },
    view: (from, to) => { pages.view = { from, to } },
  }
}

/**
 * @typedef {object} Column
 * @property {any} title a text, or what stands in its place
 * @property {(row: any) => any} cell
 * @property {string} [class] narrow: not shown on a narrow page; num: a number
 */

const long = 150 // rows; longer lists show only those in view

/**
 * @param {{of: Rows, columns: Column[], label: string, id: string, empty: any, href?: (row: any) => string}} p
 */
export function List({ of, columns, label, id, empty, href }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null))
  const end = useRef(/** @type {HTMLElement|null} */ (null))
  const first = useRef(/** @type {any} */ (null))
  const fresh = useRef(0)
  const view = useWindow(box, (of.rows ?? []).length - fresh.current)
  fresh.current = view.below ? Math.max(0, (of.rows ?? []).findIndex((row) => row[id] === first.current)) : 0
  const all = fresh.current ? (of.rows ?? []).slice(fresh.current) : of.rows ?? [] // what has come above waits until one goes there
  first.current = all[0]?.[id]
  of.view(view.from, view.to)
  useEffect(() => {
    if (!end.current || of.error) return // what has failed is not asked for without end: its time comes, or somebody's click
    const watch = new IntersectionObserver((seen) => seen.some((s) => s.isIntersecting) && of.next(), { rootMargin: '600px' })
    watch.observe(end.current)
    return () => watch.disconnect()
  }, [of.rows, of.more, of.error])
  if (of.rows === null) return of.error ? html`<${Problem} error=${of.error} retry=${of.renew} />` : html`<${Loading} />`
  if (all.length === 0 && !of.more) return html`<${Stale} of=${of} /><${Empty}>${empty}</${Empty}>`
  const windowed = all.length > long
  const [from, to] = windowed ? [view.from, view.to] : [0, all.length]
  const space = (/** @type {number} */ rows) => rows > 0 && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${rows * view.height}px` }}></td></tr>`
  return html`
    <${Stale} of=${of} retry=${!of.more} />
    ${fresh.current > 0 && html`<p class="fresh"><button type="button" class="secondary" onClick=${() => scrollTo(0, 0)}>${number(fresh.current)} new</button></p>`}
    <div class="table" ref=${box} tabindex="0" role="region" aria-label=${label}>
      <table aria-rowcount=${of.more ? -1 : all.length + 1}>
        <thead><tr>${columns.map((c) => html`<th scope="col" class=${c.class}>${c.title || html`<span class="unseen">Actions</span>`}</th>`)}</tr></thead>
        <tbody>
          ${space(from)}
          ${all.slice(from, to).map((row, i) => html`<${Row} key=${row[id]} row=${row} columns=${columns} index=${from + i + 2} href=${href} />`)}
          ${space(all.length - to)}
        </tbody>
      </table>
    </div>
    ${of.error && of.more && html`<${Problem} error=${of.error} retry=${of.renew} />`}
    <p class="small count">${number(all.length)} ${of.more ? 'so far' : 'in all'}
      ${of.more && html` <button type="button" class="link" ref=${end} aria-busy=${of.loading ? 'true' : undefined} onClick=${of.next}>Load more</button>`}</p>`
}

/** @param {{row: any, columns: Column[], index: number, href?: (row: any) => string}} p */
function Row({ row, columns, index, href }) {
  const open = (/** @type {any} */ e) => {
    if (!href || e.target.closest('a,button,input,select,time,label')) return
    if (getSelection()?.toString()) return
    location.hash = href(row)
  }
  const [error] = useErrorBoundary((e) => console.error(e))
  return html`<tr aria-rowindex=${index} class=${href ? 'open' : ''} onClick=${open}>
    ${error ? html`<td class="wrap" colspan=${columns.length}>This row cannot be shown: ${error.message}</td>` : html`<${Cells} row=${row} columns=${columns} />`}</tr>`
}

/** @param {{row: any, columns: Column[]}} p */
function Cells({ row, columns }) {
  return html`${columns.map((c) => html`<td class=${c.class}>${c.cell(row)}</td>`)}`
}

/** Which rows of a list are in view, and some around them; and whether one reads below its beginning. @param {{current: HTMLElement|null}} box @param {number} n */
function useWindow(box, n) {
  const [view, setView] = useState({ from: 0, to: long, height: 40, below: false })
  useEffect(() => {
    let due = 0
    const look = () => {
      due = 0
      const body = box.current?.querySelector('tbody')
      if (!body) return
      const height = body.querySelector('tr:not(.space)')?.getBoundingClientRect().height || 40
      const { top } = body.getBoundingClientRect()
      const below = top < -height
      const from = Math.min(n, Math.max(0, Math.floor(-top / height) - 30))
      const to = Math.min(n, from + Math.ceil(innerHeight / height) + 60)
      setView((v) => (v.from === from && v.to === to && v.height === height && v.below === below ? v : { from, to, height, below }))
    }
    const soon = () => { due ||= requestAnimationFrame(look) }
    addEventListener('scroll', soon, { passive: true })
    addEventListener('resize', soon)
    look()
    return () => {
      removeEventListener('scroll', soon)
      removeEventListener('resize', soon)
      cancelAnimationFrame(due)
    }
  }, [n])
  return view
}

/**
 * Rows of a list that are chosen, by a column of boxes. A row that has gone is no longer chosen.
 * @param {Rows} of @param {string} id member that names a row @param {(row: any) => string} name
 * @returns {{rows: any[], column: Column, choose: (ids: string[]) => void}}
 */
export function useChosen(of, id, name) {
  const [ids, choose] = useState(/** @type {string[]} */ ([]))
  const all = of.rows ?? []
  const rows = all.filter((r) => ids.includes(r[id]))
  const box = (/** @type {string} */ label, /** @type {boolean} */ checked, /** @type {(on: boolean) => void} */ set) =>
    html`<input type="checkbox" aria-label=${label} checked=${checked} onChange=${(/** @type {any} */ e) => set(e.target.checked)} />`
  const every = box('Choose all in the list', all.length > 0 && rows.length === all.length, (on) => choose(on ? all.map((r) => r[id]) : []))
  const one = (/** @type {any} */ r) => box(`Choose ${name(r)}`, ids.includes(r[id]), (on) => choose((now) => (on ? [...now, r[id]] : now.filter((i) => i !== r[id]))))
  return { rows, choose, column: column(every, one) }
}

/** A column with times, links and so on is a function of a row. @param {any} title @param {(row: any) => any} cell @param {string} [kind] @returns {Column} */
export const column = (title, cell, kind) => ({ title, cell, class: kind })
