// The signed-in user. The key lives in this tab's session storage and nowhere else: in no address, cookie or log.
import { computed, signal } from './vendor/signals.js'

/** @typedef {import('./openapi.d.ts').components['schemas']} Schemas */
/** @typedef {'read'|'run'|'manage'|'admin'|'operator'} Level */

const levels = ['read', 'run', 'manage', 'admin', 'operator']

export const key = signal(sessionStorage.getItem('key') ?? '')

/** The organization in which an operator acts; empty: the operator's own. */
export const organization = signal(sessionStorage.getItem('organization') ?? '')

/** The service's answer about the key: GET /me. Null until it has come. @type {import('./vendor/signals.js').Signal<Schemas['Me']|null>} */
export const me = signal(null)

/** The organization for which me speaks; another than the one above while its answer is on its way. */
export const met = signal(organization.value)

/** Whether the sign-in lies over the page, since an answer was a 401. */
export const expired = signal(false)

export const isOperator = computed(() => me.value?.api_key.level === 'operator')

/** Whether the key has a level. @param {Level} level */
export function may(level) {
  return me.value !== null && levels.indexOf(me.value.level) >= levels.indexOf(level)
}

/** @type {Array<() => void>} */
let waiting = []

let life = new AbortController()

/** Ends with the session. */
export const lifetime = () => life.signal

/** Waits until the user has signed in again, over the present page. */
export function signedInAgain() {
  expired.value = true
  return new Promise((resolve) => waiting.push(() => resolve(undefined)))
}

/** @param {string} text @param {Schemas['Me']} who */
export function signIn(text, who) {
  sessionStorage.setItem('key', text)
  key.value = text
  meet(who)
  expired.value = false
  const all = waiting
  waiting = []
  for (const go of all) go()
}

/** @param {Schemas['Me']} who */
export function meet(who) {
  me.value = who
  met.value = organization.value
}

/** Ends the session, and its active requests. */
export function forget() {
  life.abort()
  life = new AbortController()
  waiting = []
  sessionStorage.clear()
  key.value = organization.value = ''
  me.value = null
  expired.value = false
}

/** Acts in another organization from now on. @param {string} id of one, or empty */
export function actIn(id) {
  if (id) sessionStorage.setItem('organization', id)
  else sessionStorage.removeItem('organization')
  organization.value = id
}
