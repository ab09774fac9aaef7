// Going to anything by its id or its name, from everywhere: Ctrl K, or ⌘ K.
import { useEffect, useLayoutEffect, useRef, useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { Failure, get } from '../api.js'
import { dateTime, words } from '../format.js'
import { place, rename, to } from '../router.js'
import { may } from '../session.js'
import { Dialog } from './dialog.js'
import { useAgents, useBases, useGroups, useKeys, useToolkits } from './names.js'
import { Await, Empty, Page, Problem } from './parts.js'

/** @typedef {{kind: string, name: string, parts: string[]}} Found */

/**
 * The kinds of objects that an id may have: the path of the API, the word for it there, and its place in the panel.
 * @type {Array<[string, string, (v: any) => string, string, import('../session.js').Level]>}
 */
const kinds = [
  ['run', '/runs/', (r) => `${words(r.status)}, ${dateTime(r.created_at)}`, 'runs', 'read'], ['chat', '/chats/', (c) => c.title, 'chat', 'read'],
  ['agent', '/agents/', (a) => a.name, 'agents', 'read'], ['knowledge base', '/knowledge-bases/', (b) => b.name, 'knowledge', 'read'],
  ['toolkit', '/toolkits/', (t) => t.name, 'toolkits', 'read'], ['delivery', '/webhooks/deliveries/', (d) => `${d.event}, ${d.state}`, 'webhooks', 'read'],
  ['user', '/users/', (u) => u.name || u.email, 'users', 'admin'], ['group', '/groups/', (g) => g.name, 'groups', 'admin'],
  ['API key', '/api-keys/', (k) => k.name, 'api-keys', 'admin'],
]

/** The form of ids that the service gives. Those of chats may have any form. */
const shaped = /^[0-9A-Za-z_-]{16,64}$/

/** The answer of an address; null: there is no such object, or not for this key. @param {string} path @param {AbortSignal} signal */
async function there(path, signal) {
  try {
    return await get(path, {}, { signal })
  } catch (e) {
    if (e instanceof Failure && e.status >= 400 && e.status < 500 && e.status !== 429) return null
    throw e
  }
}

/** The object with an id. @param {string} id @param {AbortSignal} signal @returns {Promise<Found[]>} */
async function identified(id, signal) {
  const seen = await Promise.all(kinds.filter(([kind, , , , level]) => (kind === 'chat' || shaped.test(id)) && may(level)).map(async ([kind, path, nameOf, section]) => {
    const v = await there(path + encodeURIComponent(id), signal)
    return v && { kind, name: nameOf(v) || id, parts: [section, id] }
  }))
  const found = seen.filter((f) => f !== null)
  return found.length > 0 || !shaped.test(id) ? found : documents(id, signal)
}

const most = 50 // knowledge bases in which a document is looked for

/** A document has the id of its base, but can be read only within its base. @param {string} id @param {AbortSignal} signal @returns {Promise<Found[]>} */
async function documents(id, signal) {
  const bases = await get('/knowledge-bases', { limit: most }, { signal })
  const seen = await Promise.all(bases.knowledge_bases.map((/** @type {any} */ b) => there(`/knowledge-bases/${b.knowledge_base_id}/documents/${id}`, signal)))
  return seen.filter(Boolean).map((d) => ({ kind: 'document', name: d.title, parts: ['knowledge', d.knowledge_base_id, id] }))
}

/** The object with an id, and the users with a name like it. @param {string} text @param {AbortSignal} signal */
async function asked(text, signal) {
  const [things, users] = await Promise.all([
    /^\S{1,128}$/.test(text) ? identified(text, signal) : [],
    may('admin') ? get('/users', { q: text, limit: 5 }, { signal }) : { users: [] },
  ])
  return [...things, ...users.users.map((/** @type {any} */ u) => ({ kind: 'user', name: u.name ? `${u.name} (${u.email})` : u.email, parts: ['users', u.user_id] }))]
}

const apple = navigator.platform.startsWith('Mac')

/** @param {{sections: Array<[string, string, any]>}} p */
export function GoTo({ sections }) {
  const [open, setOpen] = useState(false)
  useLayoutEffect(() => {
    const keyed = (/** @type {KeyboardEvent} */ e) => {
      if (e.key.toLowerCase() !== 'k' || e.shiftKey || e.altKey || !(apple ? e.metaKey : e.ctrlKey) || document.querySelector('dialog[open]')) return
      e.preventDefault()
      setOpen(true)
    }
    addEventListener('keydown', keyed)
    return () => removeEventListener('keydown', keyed)
  }, [])
  return html`<button type="button" class="secondary goto" aria-label="Go to" aria-keyshortcuts=${apple ? 'Meta+K' : 'Control+K'} data-keys=${apple ? '⌘ K' : 'Ctrl K'} onClick=${() => setOpen(true)}>Go to</button>
    ${open && html`<${Dialog} title="Go to" onClose=${() => setOpen(false)}><${Choices} sections=${sections} close=${() => setOpen(false)} /></${Dialog}>`}`
}

/** @param {{sections: Array<[string, string, any]>, close: () => void}} p */
function Choices({ sections, close }) {
  const [text, setText] = useState('')
  const wanted = text.trim()
  const { found, error, busy } = useAsked(wanted)
  const named = useNamed(sections, wanted)
  const list = useRef(/** @type {HTMLElement|null} */ (null))
  const all = [...new Map([...found, ...named].map((f) => [to(f.parts), f])).values()].slice(0, 20)
  const keyed = (/** @type {KeyboardEvent} */ e) => {
    const links = /** @type {HTMLElement[]} */ ([...list.current?.querySelectorAll('input, a') ?? []])
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key]
    if (!step) return
    e.preventDefault()
    links[links.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + step]?.focus()
  }
  const first = (/** @type {Event} */ e) => {
    e.preventDefault()
    if (all.length > 0) location.hash = to(all[0].parts)
    if (all.length > 0) close()
  }
  return html`<div ref=${list} onKeyDown=${keyed}>
    <form class="field" onSubmit=${first}><label for="goto">Id or name</label>
      <input id="goto" type="text" autofocus autocomplete="off" value=${text} onInput=${(/** @type {any} */ e) => setText(e.target.value)} />
      <small>Search for a run, chat, agent, document, user or key. Enter opens the first hit.</small></form>
    <${Problem} error=${error} />
    <ul class="found" aria-label="Found">${all.map((f) => html`<li key=${to(f.parts)}><a href=${to(f.parts)} onClick=${close}><span>${f.name}</span> <span class="small">${f.kind}</span></a></li>`)}</ul>
    <p class="small" role="status">${busy ? 'Looking…' : wanted && all.length === 0 && !error ? 'Nothing with this id or name is visible to you.' : ''}</p></div>`
}

/** The service's results for a text, when typing ends. @param {string} text */
function useAsked(text) {
  const nothing = { of: '', found: /** @type {Found[]} */ ([]), error: /** @type {any} */ (null) }
  const [answer, setAnswer] = useState(nothing)
  useEffect(() => {
    if (text === '') return
    const asking = new AbortController()
    const timer = setTimeout(async () => {
      const a = { ...nothing, of: text }
      try { a.found = await asked(text, asking.signal) } catch (e) { a.error = e }
      if (!asking.signal.aborted) setAnswer(a)
    }, 250)
    return () => {
      clearTimeout(timer)
      asking.abort()
    }
  }, [text])
  return { ...(answer.of === text ? answer : nothing), busy: text !== '' && answer.of !== text }
}

/** Objects with a text in their names; without a text, the sections. @param {Array<[string, string, any]>} sections @param {string} text @returns {Found[]} */
function useNamed(sections, text) {
  /** @type {Array<[string, string, import('./names.js').Names]>} */
  const lists = [['agent', 'agents', useAgents()], ['knowledge base', 'knowledge', useBases()], ['toolkit', 'toolkits', useToolkits()], ['group', 'groups', useGroups()], ['API key', 'api-keys', useKeys()]]
  const all = [
    ...sections.map(([name, title]) => ({ kind: 'section', name: title, parts: [name] })),
    ...(text === '' ? [] : lists.flatMap(([kind, section, names]) => names.options.map(([id, name]) => ({ kind, name, parts: [section, id] })))),
  ]
  const like = text.toLowerCase()
  const rank = (/** @type {Found} */ f) => (f.name.toLowerCase().startsWith(like) ? 0 : 1)
  return all.filter((f) => f.name.toLowerCase().includes(like)).sort((a, b) => rank(a) - rank(b))
}

/** Leads from an id alone to the page of its object. @param {{id: string}} p */
export function Find({ id }) {
  const [answer, setAnswer] = useState(/** @type {{data: Found[]|null, error: any}} */ ({ data: null, error: null }))
  const [tries, setTries] = useState(0)
  useEffect(() => {
    const asking = new AbortController()
    setAnswer({ data: null, error: null })
    identified(id, asking.signal).then((data) => {
      if (asking.signal.aborted || place.value.id !== id) return
      if (data.length === 1) rename(data[0].parts)
      else setAnswer({ data, error: null })
    }, (error) => { if (!asking.signal.aborted) setAnswer({ data: null, error }) })
    return () => asking.abort()
  }, [id, tries])
  return html`<${Page} title=${id} back=${['Overview', to(['overview'])]}><${Await} of=${{ ...answer, renew: () => setTries(tries + 1) }}>${(/** @type {Found[]} */ all) => (all.length === 0
    ? html`<${Empty}>Nothing with this id is visible to you.</${Empty}>`
    : html`<ul>${all.map((f) => html`<li><a href=${to(f.parts)}>${f.name}</a> <span class="small">${f.kind}</span></li>`)}</ul>`)}</${Await}></${Page}>`
}
