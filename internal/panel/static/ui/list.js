// Lists of the API: the first page renews itself, the next ones come when one scrolls to the end, and of a long list only
// the rows in view are in the page.
import { useEffect, useMemo, useRef, useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { address, get } from '../api.js'
import { useLive } from '../live.js'
import { number } from '../format.js'
import { Empty, Loading, Problem, Stale } from './parts.js'

/**
 * @typedef {object} Rows
 * @property {any[]|null} rows null: not known yet
 * @property {any} error
 * @property {boolean} more whether there are further ones
 * @property {boolean} loading
 * @property {() => void} next asks for further ones
 * @property {() => void} renew
 * @property {any} data the first page
 */

/**
 * A list. Rows of the first page replace those that were known up to the last one of them that was; what stands behind
 * that stays.
 * @param {string|null} path @param {string} plural @param {string} id member that names a row
 * @param {Record<string, any>} [query] @returns {Rows}
 */
export function useList(path, plural, id, query = {}) {
  const first = useLive(path, { limit: 50, ...query })
  const name = path === null ? '' : address(path, query)
  const [kept, setKept] = useState(/** @type {any} */ ({ name: '', rows: [], cursor: null, loading: false, error: null }))
  const head = first.data
  const now = kept.name === name ? kept : { name, rows: [], cursor: undefined, loading: false, error: null }
  const rows = useMemo(() => (head ? joined(head[plural] ?? [], now.rows, id) : null), [head, now.rows])
  const cursor = now.cursor === undefined || (head && overlaps(head[plural] ?? [], now.rows, id) === false) ? head?.next_cursor : now.cursor
  const next = async () => {
    if (!rows || !cursor || now.loading) return
    setKept({ ...now, rows, cursor, loading: true, error: null })
    try {
      const page = await get(/** @type {string} */ (path), { limit: 100, ...query, cursor })
      setKept({ name, rows: joined(rows, page[plural] ?? [], id, true), cursor: page.next_cursor, loading: false, error: null })
    } catch (error) {
      setKept({ ...now, rows, cursor, loading: false, error })
    }
  }
  return { rows, error: now.error ?? first.error, more: !!cursor, loading: now.loading, next, renew: first.renew, data: head }
}

/** @param {any[]} head @param {any[]} tail @param {string} id @param {boolean} [append] */
function joined(head, tail, id, append = false) {
  if (tail.length === 0) return head
  const known = new Set(head.map((r) => r[id]))
  if (append) return [...head, ...tail.filter((r) => !known.has(r[id]))]
  const last = overlaps(head, tail, id)
  return last === false ? head : [...head, ...tail.slice(last + 1).filter((r) => !known.has(r[id]))]
}

/** The place of the last row of tail that head has, too. @param {any[]} head @param {any[]} tail @param {string} id @returns {number|false} */
function overlaps(head, tail, id) {
  const known = new Set(head.map((r) => r[id]))
  for (let i = tail.length - 1; i >= 0; i--) if (known.has(tail[i][id])) return i
  return false
}

/**
 * @typedef {object} Column
 * @property {string} title
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
  const all = of.rows ?? []
  const view = useWindow(box, all.length)
  useEffect(() => {
    if (!end.current) return
    const watch = new IntersectionObserver((seen) => seen.some((s) => s.isIntersecting) && of.next(), { rootMargin: '600px' })
    watch.observe(end.current)
    return () => watch.disconnect()
  })
  if (of.rows === null) return of.error ? html`<${Problem} error=${of.error} retry=${of.renew} />` : html`<${Loading} />`
  if (all.length === 0 && !of.more) return html`${of.error && html`<${Stale} error=${of.error} />`}<${Empty}>${empty}</${Empty}>`
  const shown = all.slice(view.from, view.to)
  return html`
    ${of.error && html`<${Stale} error=${of.error} />`}
    <div class="table" ref=${box} tabindex="0" role="region" aria-label=${label}>
      <table aria-rowcount=${of.more ? -1 : all.length + 1}>
        <thead><tr>${columns.map((c) => html`<th scope="col" class=${c.class}>${c.title || html`<span class="unseen">Actions</span>`}</th>`)}</tr></thead>
        <tbody>
          ${view.from > 0 && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${view.from * view.height}px` }}></td></tr>`}
          ${shown.map((row, i) => html`<${Row} key=${row[id]} row=${row} columns=${columns} index=${view.from + i + 2} href=${href} />`)}
          ${view.to < all.length && html`<tr class="space" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${(all.length - view.to) * view.height}px` }}></td></tr>`}
        </tbody>
      </table>
    </div>
    <p class="small count">${number(all.length)}${of.more ? ' so far' : ''}
      ${of.more && html` <button type="button" class="link" ref=${end} aria-busy=${of.loading ? 'true' : undefined} onClick=${of.next}>Load more</button>`}</p>`
}

/** @param {{row: any, columns: Column[], index: number, href?: (row: any) => string}} p */
function Row({ row, columns, index, href }) {
  const open = (/** @type {any} */ e) => {
    if (!href || e.target.closest('a,button,input,select,time,label')) return
    if (getSelection()?.toString()) return
    location.hash = href(row)
  }
  return html`<tr aria-rowindex=${index} class=${href ? 'open' : ''} onClick=${open}>
    ${columns.map((c) => html`<td class=${c.class}>${c.cell(row)}</td>`)}</tr>`
}

/** Which rows of a long list are in view. @param {{current: HTMLElement|null}} box @param {number} n */
function useWindow(box, n) {
  const [view, setView] = useState({ from: 0, to: long, height: 40 })
  useEffect(() => {
    if (n <= long) return
    let due = 0
    const look = () => {
      due = 0
      const body = box.current?.querySelector('tbody')
      if (!body) return
      const row = body.querySelector('tr:not(.space)')
      const height = row?.getBoundingClientRect().height || 40
      const top = -body.getBoundingClientRect().top
      const from = Math.max(0, Math.floor(top / height) - 30)
      const to = from + Math.ceil(innerHeight / height) + 60
      setView((v) => (v.from === from && v.to === to && v.height === height ? v : { from, to, height }))
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
  }, [n > long, n])
  return n <= long ? { from: 0, to: n, height: view.height } : { ...view, to: Math.min(view.to, n), from: Math.min(view.from, n) }
}

/** A column with times, links and so on is a function of a row. @param {string} title @param {(row: any) => any} cell @param {string} [kind] @returns {Column} */
export const column = (title, cell, kind) => ({ title, cell, class: kind })
