// The client of the REST API. A request returns its answer, or throws a [Failure] with the reason and the request id.
import { signal } from './vendor/signals.js'
import { expired, key, lifetime, organization, signedInAgain } from './session.js'

export const base = '/api/v1'

/** Counts the requests that may have changed something. */
export const writes = signal(0)

/** Why a request was not done. */
export class Failure extends Error {
  /** @param {number} status @param {Record<string, any>} body @param {number} [retryAfter] seconds */
  constructor(status, body, retryAfter = 0) {
    super(body.detail ?? body.message ?? `The service answered with status ${status}.`)
    this.status = status
    this.body = body
    this.retryAfter = retryAfter
  }
  /** @returns {string} */
  get code() { return this.body.code ?? '' }
  /** @returns {string} */
  get requestId() { return this.body.request_id ?? '' }
  /** The fault of one field of the body. @param {string} name */
  field(name) {
    const mine = (this.body.errors ?? []).filter((/** @type {any} */ e) =>
      e.location === `body.${name}` || e.location === name || e.location.startsWith(`body.${name}.`))
    return mine.map((/** @type {any} */ e) => e.message).join('; ')
  }
}

/**
 * @typedef {object} Options
 * @property {Record<string, any>} [query] empty members are left out
 * @property {any} [json] a body
 * @property {BodyInit} [body] another body
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 * @property {number} [within] ms within which the whole answer must have come
 * @property {string} [key] to use instead of the session's
 */

/** @param {string} path @param {Record<string, any>} [query] */
export function address(path, query = {}) {
  const q = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== null && value !== '') q.set(name, value)
  const text = q.toString()
  return base + path + (text && '?' + text)
}

/**
 * The address of a path, for a request. A browser resolves dots in a path, and ends it at a ? or #: then the request would
 * go elsewhere, and is not made.
 * @param {string} path @param {Record<string, any>} [query]
 */
function exact(path, query) {
  if (new URL(base + path, location.origin).pathname !== base + path) throw new Failure(404, { code: 'not_found', detail: 'This id is not valid.' })
  return address(path, query)
}

/** @param {Options} o */
function headersOf(o) {
  /** @type {Record<string, string>} */
  const headers = { Authorization: `Bearer ${o.key ?? key.value}`, ...o.headers }
  if (organization.value && o.key === undefined && headers['X-Organization'] === undefined) headers['X-Organization'] = organization.value
  if (!headers['X-Organization']) delete headers['X-Organization']
  if (o.json !== undefined) headers['Content-Type'] = 'application/json'
  return headers
}

/**
 * Sends a request. After a 401 the user signs in over the page. Then a request that only reads goes on, and the user
 * repeats any other.
 * @param {string} method @param {string} path @param {Options} [o] @returns {Promise<Response>}
 */
export async function request(method, path, o = {}) {
  const to = exact(path, o.query)
  const used = key.value
  const ends = [lifetime(), o.signal, o.within && AbortSignal.timeout(o.within)].filter((s) => !!s)
  let answer
  try {
    answer = await fetch(to, {
      method, headers: headersOf(o), signal: AbortSignal.any(ends), cache: 'no-store',
      body: o.json !== undefined ? JSON.stringify(o.json) : o.body,
    })
  } catch (e) {
    if (o.signal?.aborted) throw e
    throw unreachable()
  }
  if (answer.ok && method !== 'GET') writes.value++
  if (answer.ok || answer.status === 304) return answer
  const failure = await failureOf(answer)
  if (answer.status !== 401 || o.key !== undefined) throw failure
  if (method === 'GET') {
    if (key.value === used) await signedInAgain()
    return request(method, path, o)
  }
  if (key.value === used) expired.value = true
  throw failure
}

/** The failure of a request without an answer. */
export const unreachable = () =>
  new Failure(0, { code: 'unreachable', detail: 'The service cannot be reached. Your input is kept.' })

/** @param {Response} answer */
async function failureOf(answer) {
  const text = await answer.text().catch(() => '')
  let body = {}
  try { body = JSON.parse(text) } catch { body = { request_id: answer.headers.get('x-request-id') ?? '' } }
  return new Failure(answer.status, body, Number(answer.headers.get('retry-after')) || 0)
}

/** @param {string} path @param {Record<string, any>} [query] @param {Options} [o] @returns {Promise<any>} */
export const get = async (path, query, o) => (await request('GET', path, { ...o, query })).json()

/** @param {string} path @param {any} [json] @param {Options} [o] @returns {Promise<any>} */
export const post = async (path, json, o) => read(await request('POST', path, { ...o, json }))

/** @param {string} path @param {any} json @returns {Promise<any>} */
export const put = async (path, json) => read(await request('PUT', path, { json }))

/** @param {string} path @param {any} json @param {string} [etag] @returns {Promise<any>} */
export const patch = async (path, json, etag) =>
  read(await request('PATCH', path, { json, headers: etag ? { 'If-Match': etag } : {} }))

/** @param {string} path @param {Options} [o] */
export const remove = (path, o) => request('DELETE', path, o)

/** @param {Response} answer */
async function read(answer) {
  const text = await answer.text()
  return text ? JSON.parse(text) : null
}

/**
 * Sends a body and reports how much of it has gone out, which fetch does not.
 * @param {{method?: string, url: string, headers?: Record<string, string>, body: XMLHttpRequestBodyInit, told: (share: number) => void, signal: AbortSignal}} o
 * @returns {Promise<any>}
 */
export function transfer({ method = 'POST', url, headers = headersOf({}), body, told, signal }) {
  const used = key.value
  const ends = AbortSignal.any([lifetime(), signal])
  return new Promise((resolve, reject) => {
    const stopped = () => reject(new Failure(0, { code: 'stopped', detail: 'Stopped by you.' }))
    if (ends.aborted) return stopped()
    const r = new XMLHttpRequest()
    r.open(method, url)
    for (const [name, value] of Object.entries(headers)) r.setRequestHeader(name, value)
    r.upload.onprogress = (e) => e.lengthComputable && told(e.loaded / e.total)
    r.onerror = () => reject(new Failure(0, { code: 'unreachable', detail: 'The service cannot be reached, or closed the connection.' }))
    r.onabort = stopped
    r.onload = () => {
      let answer = {}
      try { answer = JSON.parse(r.responseText) } catch { /* the status says enough */ }
      if (r.status < 300) {
        writes.value++
        return resolve(answer)
      }
      if (r.status === 401 && url.startsWith(base) && key.value === used) expired.value = true // a bucket's is not ours
      reject(new Failure(r.status, answer, Number(r.getResponseHeader('retry-after')) || 0))
    }
    const abort = () => r.abort()
    ends.addEventListener('abort', abort)
    r.onloadend = () => ends.removeEventListener('abort', abort)
    r.send(body)
  })
}

/**
 * The largest body that a gateway passes on whole, in bytes; larger files go to the address that the service returns.
 */
const whole = 3.5 * 1024 * 1024

/**
 * Sends a file as the content of a document, new or not.
 * @param {'POST'|'PUT'} method POST: to the documents of a base; PUT: to the content of a document
 * @param {string} path @param {File} file @param {(share: number) => void} told @param {AbortSignal} signal
 */
export async function sendDocument(method, path, file, told, signal) {
  if (file.size <= whole) {
    const form = new FormData()
    form.append('file', file, file.name)
    return transfer({ method, url: exact(path), body: form, told, signal })
  }
  const made = await post('/files', { name: file.name, size: file.size, content_type: file.type || undefined, purpose: 'document' }, { signal })
  const { method: by, url, headers } = made.upload
  const at = new URL(url, location.href)
  const ours = at.pathname.startsWith(base + '/')
  const own = Object.entries(headers ?? {}).filter(([name]) => !/^(content-length|host)$/i.test(name)) // the browser's
  await transfer({
    method: by, url: ours ? at.pathname + at.search : url, headers: { ...(ours ? headersOf({}) : {}), ...Object.fromEntries(own) },
    body: file, told, signal,
  })
  const title = method === 'POST' ? { title: file.name } : {}
  return read(await request(method, path, { json: { file_id: made.file_id, ...title }, signal }))
}

/** A key under which a repetition of a request is known as one. */
function onceKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
}

/**
 * An act that is to be done once, with any number of attempts. Its key stays the same for the same content until the
 * act was done.
 */
export class Once {
  constructor() { this.of = this.text = '' }

  /** @param {any} what @returns {string} */
  key(what) {
    const text = JSON.stringify(what)
    if (text !== this.of) {
      this.of = text
      this.text = onceKey()
    }
    return this.text
  }

  done() { this.of = '' }
}

/** Saves the answer of an address as a file. @param {string} path @param {string} name @param {Options} [o] */
export async function download(path, name, o) {
  const answer = await request('GET', path, o)
  const link = document.createElement('a')
  link.href = URL.createObjectURL(await answer.blob())
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}
