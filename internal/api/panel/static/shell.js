// The frame of every page: the sign-in, the links to the sections, the organization in which the user acts.
import { useEffect, useErrorBoundary, useRef, useState } from './vendor/hooks.js'
import { html } from './html.js'
import { Failure, get } from './api.js'
import { seldom, useLive } from './live.js'
import { moves, place, to } from './router.js'
import { actIn, expired, forget, isOperator, key, may, me, meet, met, organization, signIn } from './session.js'
import { Dialog, Questions } from './ui/dialog.js'
import { Field, Form, useAct } from './ui/form.js'
import { Find, GoTo } from './ui/goto.js'
import { Await, Page, Problem } from './ui/parts.js'
import { Overview } from './sections/overview.js'
import { Chat } from './sections/chat.js'
import { Runs } from './sections/runs.js'
import { Inbox } from './sections/inbox.js'
import { Agents } from './sections/agents.js'
import { Toolkits } from './sections/toolkits.js'
import { Knowledge } from './sections/knowledge.js'
import { Users } from './sections/users.js'
import { Groups } from './sections/groups.js'
import { Keys } from './sections/keys.js'
import { Webhooks } from './sections/webhooks.js'
import { Analytics } from './sections/analytics.js'
import { Audit } from './sections/audit.js'
import { Settings } from './sections/settings.js'

for (const kind of /** @type {const} */ (['dragover', 'drop'])) { // a file that is dropped beside its place does not take the page away
  addEventListener(kind, (e) => {
    if (/** @type {Element} */ (e.target).closest?.('.drop, input[type=file]')) return
    e.preventDefault()
    if (e.dataTransfer) e.dataTransfer.dropEffect = 'none'
  })
}

/** @type {Array<[string, string, any]>} */
const sections = [
  ['overview', 'Overview', Overview], ['chat', 'Chat', Chat], ['runs', 'Runs', Runs], ['inbox', 'Inbox', Inbox],
  ['agents', 'Agents', Agents], ['toolkits', 'Toolkits', Toolkits], ['knowledge', 'Knowledge', Knowledge],
  ['users', 'Users', Users], ['groups', 'Groups', Groups], ['api-keys', 'API keys', Keys], ['webhooks', 'Webhooks', Webhooks],
  ['analytics', 'Analytics', Analytics], ['audit-log', 'Audit log', Audit], ['settings', 'Settings', Settings],
]

export function Shell() {
  if (!key.value) return html`<main class="sign-in"><h1>Agent Platform</h1><${SignIn} /></main>`
  return html`<${Signed} /><${Questions} />
    ${expired.value && html`<${Dialog} title="Sign in again"><p>The key is no longer valid. Your input is kept.</p><${SignIn} /></${Dialog}>`}`
}

function SignIn() {
  const [text, setText] = useState('')
  const act = useAct(async () => {
    const given = text.trim()
    let who
    try {
      who = await get('/me', {}, { key: given, headers: { 'X-Organization': organization.value } })
    } catch (e) {
      if (!(e instanceof Failure) || ![403, 404].includes(e.status) || !organization.value) throw e
      actIn('')
      who = await get('/me', {}, { key: given })
    }
    signIn(given, who)
  })
  return html`<${Form} act=${act} submit="Sign in" label="Sign in"
    more=${expired.value && html`<button type="button" class="secondary" onClick=${forget}>Forget key</button>`}>
    <${Field} label="API key" type="password" autocomplete="one-time-code" value=${text} onChange=${setText} required
      help="An administrator creates one under API keys; the program prints the place of the first one at start. This tab keeps it until you close the tab." />
  </${Form}>`
}

function Signed() {
  const who = useLive('/me', {}, seldom)
  useEffect(() => { if (who.data) meet(who.data) }, [who.data])
  const { section } = place.value
  const found = sections.find(([name]) => name === section)
  useFocus()
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the page</a>
    <${Top} />
    <div class="frame">
      <${Navigation} section=${section} />
      <main id="main" tabindex="-1" key=${organization.value}>
        ${met.value !== organization.value || me.value === null && who.error
          ? html`<${Page} title=${found?.[1] ?? 'Agent Platform'}><${Await} of=${{ ...who, data: null }} /></${Page}>`
          : section === 'find' ? html`<${Find} id=${place.value.id} key=${place.value.id} />`
          : found ? html`<${Guarded} key=${section} title=${found[1]}><${found[2]} /></${Guarded}>` : html`<${Page} title="Not found" back=${['Overview', to(['overview'])]}><p>This page does not exist.</p></${Page}>`}
      </main>
    </div>`
}

/** A page, or the error that broke it: the links to the others stay. @param {{title: string, children: any}} p */
function Guarded({ title, children }) {
  const [error, again] = useErrorBoundary((e) => console.error(e))
  const [at] = useState({ moves: moves.value })
  if (error && at.moves !== moves.value) again() // somebody has gone elsewhere
  at.moves = moves.value
  return error ? html`<${Page} title=${title}><${Problem} error=${{ message: `This page cannot be shown: ${error.message}` }} retry=${again} /></${Page}>` : children
}

/** Moves the focus to the heading of a new page, for users who read by ear or by keyboard. */
function useFocus() {
  const first = useRef(moves.value)
  useEffect(() => {
    if (first.current === moves.value) return
    scrollTo(0, 0)
    const h = /** @type {HTMLElement|null} */ (document.querySelector('main h1'))
    h?.focus({ preventScroll: true })
  }, [moves.value])
}

/** @param {Event} e */
function skip(e) {
  e.preventDefault()
  document.getElementById('main')?.focus()
}

function Top() {
  const who = me.value
  return html`<header class="top">
    <a class="brand" href=${to(['overview'])}><span aria-hidden="true" class="mark"></span><span class="title">Agent Platform</span></a>
    <span class="grow"></span>
    <${GoTo} sections=${sections} />
    ${isOperator.value && html`<${Switch} />`}
    ${who && html`<span class="who" title=${who.user.email}>${who.user.name || who.user.email} <span class="status quiet">${who.level}</span></span>`}
    <a href="/docs/" class="docs">API docs</a>
    <button type="button" class="secondary" onClick=${forget}>Forget key</button>
  </header>`
}

/** Lets an operator act in another organization. */
function Switch() {
  const [list, setList] = useState(/** @type {any[]} */ ([]))
  const load = useAct(async () => {
    /** @type {any[]} */
    const all = []
    for (let cursor = ''; all.length < 1000;) {
      const page = await get('/organizations', { limit: 100, cursor }, { headers: { 'X-Organization': '' } })
      all.push(...page.organizations)
      if (!(cursor = page.next_cursor)) break
    }
    setList(all)
  })
  useEffect(() => { load.run() }, [])
  const own = me.value?.api_key.organization_id ?? ''
  const choose = (/** @type {any} */ e) => actIn(e.target.value === own ? '' : e.target.value)
  const current = organization.value || own
  return html`<label class="switch"><span class="unseen">Organization</span>
    <select value=${current} onFocus=${() => load.run()} onChange=${choose}>
      ${!list.some((o) => o.organization_id === current) && html`<option value=${current} selected>${me.value?.organization?.name ?? 'No organization'}</option>`}
      ${list.map((o) => html`<option value=${o.organization_id} selected=${o.organization_id === current}>${o.name}</option>`)}
    </select></label>
    ${load.error && html`<span class="small" role="alert">Organizations cannot be listed: ${load.error.message} <button type="button" class="link" onClick=${() => load.run()}>Try again</button></span>`}`
}

/** @param {{section: string}} p */
function Navigation({ section }) {
  const waiting = useWaiting()
  const list = useRef(/** @type {HTMLElement|null} */ (null))
  useEffect(() => {
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [section])
  return html`<nav aria-label="Sections" ref=${list}><ul>
    ${sections.map(([name, text]) => html`<li key=${name}><a href=${to([name])} aria-current=${name === section ? 'page' : undefined}
      aria-label=${name === 'inbox' && waiting ? `Inbox, ${waiting} waiting` : undefined}>${text}${name === 'inbox' && waiting
        ? html` <span class="badge" aria-hidden="true">${waiting}</span>` : ''}</a></li>`)}
  </ul></nav>`
}

/** How many interrupts wait for the signed-in user. */
function useWaiting() {
  const { data } = useLive(may('read') ? '/interrupts' : null, { limit: 6 })
  return data?.waiting ?? data?.interrupts.length ?? 0
}
