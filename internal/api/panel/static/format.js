// How values are written for people.

const dates = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const days = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
const numbers = new Intl.NumberFormat()
const short = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })

/** @param {string|number|Date} t */
export const dateTime = (t) => dates.format(new Date(t))

/** @param {string|number|Date} t */
export const day = (t) => days.format(new Date(t))

/** A day of the viewer's, as the API takes it. @param {number} t */
export const isoDay = (t) => new Date(t).toLocaleDateString('en-CA')

/** The viewer's time zone, where the API counts in it: in ranges of at most 92 days. @param {string} from @param {string} to */
export function zone(from, to = isoDay(Date.now())) {
  const days = (Date.parse(to) - Date.parse(from)) / 86400e3
  return days <= 91 ? Intl.DateTimeFormat().resolvedOptions().timeZone : undefined
}

/** When a day begins, in the viewer's time zone or in UTC; a time is one already. @param {string} day @param {string|undefined} zone */
export const beginOf = (day, zone) => new Date(day.length > 10 ? day : zone ? `${day}T00:00` : `${day}T00:00Z`).toISOString()

/** @param {string|number|Date} t */
export const utc = (t) => new Date(t).toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC')

/** @param {number|null|undefined} n */
export const number = (n) => (n === null || n === undefined ? '–' : numbers.format(n))

/** @param {number} n */
export const compact = (n) => short.format(n)

/** @param {number|null|undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–'
  if (ms < 1000) return `${Math.round(ms)} ms`
  const s = ms / 1000
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`
  return `${Math.floor(s / 86400)} d ${Math.round((s % 86400) / 3600)} h`
}

/** @param {number} n */
export function bytes(n) {
  if (n < 1024) return `${n} B`
  const units = ['KiB', 'MiB', 'GiB', 'TiB']
  let i = -1
  do { n /= 1024; i++ } while (n >= 1024 && i < units.length - 1)
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`
}

/** @param {number} n @param {string} one @param {string} [many] */
export const count = (n, one, many = one + 's') => `${numbers.format(n)} ${n === 1 ? one : many}`

/** A status or a kind as a phrase. @param {string|null|undefined} s */
export const words = (s) => (s ?? '').replaceAll('_', ' ')

/** Cuts a long text. @param {string} s @param {number} n */
export const cut = (s, n) => (s.length > n ? s.slice(0, n - 1) + '…' : s)

/**
 * A text with its invisible characters shown, and those that change the order of others: a user approves the text that
 * the service has.
 * @param {string|undefined} s
 */
export const revealed = (s) => s?.replace(/[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)

/**
 * A value as JSON to read: with a line for each member, where that does not make it much longer.
 * @param {any} value @returns {string}
 */
export function pretty(value) {
  const flat = JSON.stringify(value) ?? ''
  let [depth, added, quoted] = [0, 0, false]
  for (let i = 0; i < flat.length; i++) {
    const c = flat[i]
    if (quoted) {
      if (c === '\\') i++
      else if (c === '"') quoted = false
    } else if (c === '"') quoted = true
    else if (c === '{' || c === '[') added += 2 * ++depth
    else if (c === '}' || c === ']') added += 2 * --depth
    else if (c === ',') added += 2 * depth
  }
  return flat === '' || added > 1000 + 4 * flat.length ? flat : JSON.stringify(value, null, 2)
}
