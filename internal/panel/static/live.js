// What renews itself while somebody looks at it: every 4 s, only while the page is visible, and without a new picture
// when nothing has changed. Those who look at the same thing share it.
import { signal } from './vendor/signals.js'
import { useEffect, useMemo } from './vendor/hooks.js'
import { address, request } from './api.js'

export const every = 4000

/** @template T @typedef {import('./vendor/signals.js').Signal<T>} Signal */

class Live {
  /** @param {string} path @param {Record<string, any>} query */
  constructor(path, query) {
    this.path = path
    this.query = query
    /** @type {Signal<any>} */
    this.data = signal(null)
    /** @type {Signal<any>} */
    this.error = signal(null)
    this.lookers = 0
    this.etag = ''
    this.text = ''
    this.timer = 0
    /** @type {AbortController|null} */
    this.asking = null
  }

  /** Asks anew, now. */
  async renew() {
    clearTimeout(this.timer)
    this.asking?.abort()
    const asking = (this.asking = new AbortController())
    let wait = every
    try {
      /** @type {Record<string, string>} */
      const headers = this.etag ? { 'If-None-Match': this.etag } : {}
      const answer = await request('GET', this.path, { query: this.query, headers, signal: asking.signal })
      const text = answer.status === 304 ? this.text : await answer.text()
      if (text !== this.text) {
        this.data.value = JSON.parse(text)
        this.text = text
      }
      if (answer.status !== 304) this.etag = answer.headers.get('etag') ?? ''
      this.error.value = null
    } catch (e) {
      if (asking.signal.aborted) return
      this.error.value = e
      wait = Math.max(wait, 1000 * (/** @type {any} */ (e).retryAfter ?? 0))
    }
    if (this.asking === asking) this.asking = null
    if (this.lookers > 0 && !document.hidden) this.timer = window.setTimeout(() => this.renew(), wait)
  }

  stop() {
    clearTimeout(this.timer)
    this.asking?.abort()
    this.asking = null
  }
}

/** @type {Map<string, Live>} */
const all = new Map()

document.addEventListener('visibilitychange', () => {
  for (const l of all.values()) {
    if (document.hidden) clearTimeout(l.timer)
    else if (l.lookers > 0) l.renew()
  }
})

/**
 * What an address answers, as it is now. Without a path there is nothing.
 * @param {string|null} path @param {Record<string, any>} [query]
 * @returns {{data: any, error: any, renew: () => void, etag: () => string}}
 */
export function useLive(path, query = {}) {
  const name = path === null ? '' : address(path, query)
  const live = useMemo(() => {
    const l = all.get(name) ?? new Live(path ?? '', query)
    if (name) all.set(name, l)
    return l
  }, [name])
  useEffect(() => {
    if (!name) return
    all.set(name, live)
    if (live.lookers++ === 0) live.renew()
    return () => {
      if (--live.lookers > 0) return
      live.stop()
      all.delete(name)
    }
  }, [name])
  return { data: live.data.value, error: live.error.value, renew: () => live.renew(), etag: () => live.etag }
}

/** Has everything that is being looked at asked for anew: after a change. @param {string} [path] only what begins so */
export function renewAll(path = '') {
  for (const l of all.values()) if (l.lookers > 0 && l.path.startsWith(path)) l.renew()
}
