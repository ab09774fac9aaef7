// Data that renews itself while a user looks at it: every 4 s, only while the page is visible, and without a new
// rendering when nothing has changed. Several viewers of the same data share it. After a write all data is requested
// again immediately.
import { effect, signal, untracked } from './vendor/signals.js'
import { useEffect, useMemo } from './vendor/hooks.js'
import { address, request, unreachable, writes } from './api.js'
import { key, organization } from './session.js'

/** Intervals, in ms: of active work; of numbers that grow slowly; of names, which are kept for later viewers. */
export const often = 4000, slowly = 20000, seldom = 60000

/**
 * How long an answer may take, in ms; a gateway gives up before. Without it, a silent connection would block the page
 * for minutes.
 */
const patience = 30000

/** @template T @typedef {import('./vendor/signals.js').Signal<T>} Signal */

/** The answer of an address. When it is read again and nothing has changed, the value is the same object. */
class Look {
  /** @param {string} path @param {Record<string, any>} query */
  constructor(path, query) {
    this.path = path
    this.query = query
    this.etag = ''
    this.text = ''
    /** @type {any} */
    this.value = null
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    /** @type {Record<string, string>} */
    const headers = this.etag ? { 'If-None-Match': this.etag } : {}
    const answer = await request('GET', this.path, { query: this.query, headers, signal, within: patience })
    if (answer.status !== 304) {
      const text = await answer.text()
      if (text !== this.text) this.value = JSON.parse(text)
      this.text = text
      this.etag = answer.headers.get('etag') ?? ''
    }
    return this.value
  }
}

/**
 * The pages of a list. Pages with rows in view are read again, each from the end of the one before it. The others stay
 * as they are until they come into view, so that nothing moves for a user who reads further down.
 */
export class Pages {
  /** @param {string} path @param {string} plural @param {string} id member that names a row @param {Record<string, any>} query @param {number} wanted rows */
  constructor(path, plural, id, query, wanted) {
    this.page = (/** @type {string} */ cursor) => new Look(path, { limit: cursor || wanted ? 100 : 50, ...query, cursor })
    this.pages = [this.page('')]
    this.plural = plural
    this.id = id
    this.wanted = wanted
    this.view = { from: 0, to: Infinity }
    /** @type {any[]} */
    this.shown = []
    this.value = { rows: /** @type {any[]} */ ([]), more: false }
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    for (let i = 0, at = 0; i < this.pages.length; i++) {
      const page = this.pages[i]
      const known = page.value?.[this.plural]?.length ?? 0
      if (!page.value || (at <= this.view.to && at + known >= this.view.from)) await page.read(signal)
      at += page.value[this.plural]?.length ?? 0
      const cursor = page.value.next_cursor
      if (!cursor) this.pages.length = i + 1
      else if (i + 1 === this.pages.length && at < this.wanted) this.pages.push(this.page(cursor))
      else if (i + 1 < this.pages.length) this.pages[i + 1].query.cursor = cursor
    }
    const now = this.pages.map((p) => p.value)
    if (now.length === this.shown.length && now.every((v, i) => v === this.shown[i])) return this.value
    const rows = new Map(now.flatMap((v) => (v[this.plural] ?? []).map((/** @type {any} */ r) => [r[this.id], r])))
    this.shown = now
    return (this.value = { rows: [...rows.values()], more: !!now[now.length - 1].next_cursor })
  }
}

/** How often data is requested again, also as a function of the data; 0: it does not change by itself. @typedef {number|((data: any) => number)} Interval */

class Live {
  /** @param {string} path @param {{read: (signal: AbortSignal) => Promise<any>}} source */
  constructor(path, source) {
    this.path = path
    this.source = source
    /** @type {Signal<any>} */
    this.data = signal(null)
    /** @type {Signal<any>} */
    this.error = signal(null)
    /** The viewers of the data, each with its interval. @type {Set<{every: Interval}>} */
    this.lookers = new Set()
    this.at = 0 // when it was read
    this.timer = 0
    /** @type {AbortController|null} */
    this.asking = null
  }

  /** The shortest interval of the viewers; 0: nobody wants the data again. */
  get gap() {
    const wanted = [...this.lookers].map(({ every }) => (typeof every === 'function' ? every(this.data.value) : every)).filter((n) => n > 0)
    return wanted.length > 0 ? Math.min(...wanted) : 0
  }

  /** Requests the data again, now. */
  async renew() {
    this.stop()
    const asking = (this.asking = new AbortController())
    let wait = 0
    try {
      this.data.value = await this.source.read(asking.signal)
      this.error.value = null
      this.at = Date.now()
      wait = this.gap
    } catch (e) {
      if (asking.signal.aborted) return
      this.error.value = /** @type {any} */ (e).name === 'TimeoutError' ? unreachable() : e
      wait = Math.max(gone(e) ? seldom : often, this.gap, 1000 * (/** @type {any} */ (e).retryAfter ?? 0))
    }
    if (asking.signal.aborted) return
    this.asking = null
    this.later(wait)
  }

  /** @param {number} wait */
  later(wait) {
    clearTimeout(this.timer)
    if (wait > 0 && this.lookers.size > 0 && !document.hidden) this.timer = window.setTimeout(() => this.renew(), wait)
  }

  /** Goes on after a time without viewers. */
  resume() {
    const left = this.at + this.gap - Date.now()
    if (!this.at || (this.gap && left <= 0)) this.renew()
    else this.later(this.gap && left)
  }

  stop() {
    clearTimeout(this.timer)
    this.asking?.abort()
    this.asking = null
  }
}

/** Whether the requested object does not exist, or is not for this user. @param {any} e */
export const gone = (e) => e?.status === 403 || e?.status === 404

/** @type {Map<string, Live>} */
const all = new Map()

document.addEventListener('visibilitychange', () => {
  for (const l of all.values()) {
    if (document.hidden) clearTimeout(l.timer)
    else if (l.lookers.size > 0) l.resume()
  }
})

effect(() => { // what was kept may be otherwise after a change, or not for another key's eyes
  void [writes.value, key.value]
  untracked(() => {
    for (const [name, l] of all) {
      if (l.lookers.size > 0) l.renew()
      else all.delete(name)
    }
  })
})

/** @param {string} name @param {string} path @param {Interval} every @param {() => {read: (signal: AbortSignal) => Promise<any>}} source @returns {Live} */
function useLooked(name, path, every, source) {
  const whole = name && `${organization.value} ${name}`
  const live = useMemo(() => all.get(whole) ?? new Live(path, source()), [whole])
  const looker = useMemo(() => ({ every }), [])
  looker.every = every
  useEffect(() => {
    if (!whole) return
    all.set(whole, live)
    live.lookers.add(looker)
    if (!live.asking) live.resume()
    return () => {
      live.lookers.delete(looker)
      if (live.lookers.size > 0) return
      live.stop()
      if (every !== seldom && all.get(whole) === live) all.delete(whole)
    }
  }, [whole])
  return live
}

/**
 * The present answer of an address. Without a path there is none.
 * @param {string|null} path @param {Record<string, any>} [query] @param {Interval} [every]
 * @returns {{data: any, error: any, renew: () => Promise<void>, etag: () => string}}
 */
export function useLive(path, query = {}, every = often) {
  const live = useLooked(path === null ? '' : address(path, query), path ?? '', every, () => new Look(path ?? '', query))
  return { data: live.data.value, error: live.error.value, renew: () => live.renew(), etag: () => /** @type {Look} */ (live.source).etag }
}

/**
 * All rows of a list, up to a bound, in one page or in several.
 * @param {string|null} path @param {string} plural @param {string} id @param {Record<string, any>} [query] @param {Interval} [every]
 * @returns {{data: any[]|null, error: any, more: boolean, renew: () => Promise<void>}} more: whether there are further rows after the bound
 */
export function useAll(path, plural, id, query = {}, every = often) {
  const live = usePages(path, plural, id, query, every, 1000)
  const { rows = null, more = false } = live.data.value ?? {}
  return { data: rows, more, error: live.error.value, renew: () => live.renew() }
}

/**
 * The pages of a list, the first, or as many as hold the rows that are wanted.
 * @param {string|null} path @param {string} plural @param {string} id @param {Record<string, any>} [query] @param {Interval} [every] @param {number} [wanted]
 * @returns {Live}
 */
export function usePages(path, plural, id, query = {}, every = often, wanted = 0) {
  const name = path === null ? '' : `${wanted} ${plural} of ${address(path, query)}`
  return useLooked(name, path ?? '', every, () => new Pages(path ?? '', plural, id, query, wanted))
}
