// The user's place, in the part of the address after #. It survives reload, can be sent to others, and never reaches a
// server.
import { signal } from './vendor/signals.js'

/** @typedef {{section: string, id: string, more: string[], query: URLSearchParams}} Place */

/** An id, or none: of letters that stand for themselves in a path, not of dots alone. */
const isId = /^(?!\.+$)[\w.:~-]*$/

/** @returns {Place} */
function here() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?')
  const [section = '', id = '', ...more] = path.split('/').map(decode)
  const bad = [id, ...more].find((part) => !isId.test(part)) // in a path of the API it would lead elsewhere
  if (section !== 'find' && bad !== undefined) return { section: 'find', id: bad, more: [], query: new URLSearchParams() }
  return { section: section || 'overview', id, more, query: new URLSearchParams(query) }
}

/** @param {string} part */
function decode(part) {
  try { return decodeURIComponent(part) } catch { return part }
}

export const place = signal(here())

/** Counts the user's moves to another place. */
export const moves = signal(0)

addEventListener('hashchange', () => {
  place.value = here()
  moves.value++
})

/** The address of a place. @param {string[]} parts @param {Record<string, any>} [query] */
export function to(parts, query = {}) {
  const q = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== '' && v !== undefined && v !== null))
  const text = q.toString()
  return '#/' + parts.map(encodeURIComponent).join('/') + (text && '?' + text)
}

/** @param {string[]} parts @param {Record<string, any>} [query] */
export function go(parts, query) {
  location.hash = to(parts, query)
}

/** Replaces the address of the present place: no step back leads to the old address. @param {string[]} parts @param {Record<string, any>} [query] */
export function rename(parts, query) {
  history.replaceState(null, '', to(parts, query))
  place.value = here()
}

/** Changes the query of where one is. @param {Record<string, any>} query */
export function setQuery(query) {
  const { section, id, more } = place.value
  rename([section, id, ...more].filter(Boolean), query)
}
