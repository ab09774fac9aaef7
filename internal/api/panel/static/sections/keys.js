// API keys: the text of one is shown once.
import { useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { post, remove } from '../api.js'
import { useLive } from '../live.js'
import { number } from '../format.js'
import { may, organization } from '../session.js'
import { go, place, to } from '../router.js'
import { ask, Dialog } from '../ui/dialog.js'
import { EditForm, useEdit } from '../ui/edit.js'
import { BudgetFields, budgetOf, budgetWords, Choice, EditButton, Field, Form, instant, local, useAct, useDraft, withBudget } from '../ui/form.js'
import { column, List, useList } from '../ui/list.js'
import { useUsers } from '../ui/names.js'
import { Await, Card, Copy, Facts, Id, Needs, Page, Status, Time } from '../ui/parts.js'
import { Usage } from '../ui/usage.js'

export function Keys() {
  const { id } = place.value
  if (id) return html`<${Key} id=${id} key=${id} />`
  return html`<${Page} title="API keys"><${Needs} level="admin" to="Managing API keys"><${Manage} /></${Needs}></${Page}>`
}

const levels = [['read', 'read: only reads'], ['run', 'run: chats and controls runs'], ['manage', 'manage: also agents, toolkits, knowledge'],
  ['admin', 'admin: also people, keys, settings']]

const sights = [['own', 'Same as its owner'], ['organization', 'All users, for monitoring']]

/** Which chats a key sees. Levels above run see those of others anyway. @param {{level: string}} p */
const Sight = ({ level, ...of }) => (level === 'read' || level === 'run') && html`<${Field} label="Sees chats" ...${of} options=${sights} />`

function Manage() {
  const users = useUsers()
  const list = useList('/api-keys', 'api_keys', 'api_key_id')
  const [shown, setShown] = useState(/** @type {any} */ (null))
  const columns = [
    column('Name', (k) => html`<a href=${to(['api-keys', k.api_key_id])}>${k.name}</a><div class="slim small"><code>${k.prefix}…</code> ${k.level}, ${users.of(k.user_id)}<br />used ${k.last_used_at ? html`<${Time} at=${k.last_used_at} />` : 'never'}${k.expires_at && html`<br />expires <${Time} at=${k.expires_at} />`}</div>`),
    column('Prefix', (k) => html`<code>${k.prefix}…</code>`, 'narrow'),
    column('Level', (k) => k.level, 'narrow'),
    column('Owner', (k) => html`<a href=${to(['users', k.user_id])}>${users.of(k.user_id) || k.user_id}</a>`, 'narrow'),
    column('Last used', (k) => html`<${Time} at=${k.last_used_at} />`, 'narrow'),
    column('Expires', (k) => (k.expires_at ? html`<${Time} at=${k.expires_at} />` : 'never'), 'narrow'),
    column('', (k) => html`<${Verbs} of=${k} show=${setShown} />`),
  ]
  return html`
    <${Card} title="New key"><${NewKey} users=${users} made=${setShown} /></${Card}>
    ${shown && html`<${Shown} of=${shown} onClose=${() => setShown(null)} />`}
    <${List} of=${list} columns=${columns} label="API keys" id="api_key_id" empty="There are no API keys yet." />`
}

/** @param {{users: any, made: (k: any) => void}} p */
function NewKey({ users, made }) {
  /** @type {any} */
  const empty = { name: '', user_id: '', level: 'run', sees: 'own', expires_at: '', budget: null }
  const { draft, setDraft, bind } = useDraft(empty)
  const act = useAct(async () => {
    made(await post('/api-keys', {
      name: draft.name, level: draft.level, user_id: draft.user_id || undefined, sees: draft.level === 'read' || draft.level === 'run' ? draft.sees : undefined,
      expires_at: instant(draft.expires_at), budget: budgetOf(draft.budget),
    }))
    setDraft(empty)
  })
  return html`<${Form} act=${act} submit="Create key" label="New key">
    <div class="row">
      <${Field} label="Name" ...${bind('name')} error=${act.error} required />
      <${Choice} label="Owner" ...${bind('user_id')} error=${act.error} of=${users} first=${[organization.value ? ['', 'choose…'] : ['', 'me']]} required=${!!organization.value} />
      <${Field} label="Level" ...${bind('level')} error=${act.error} options=${[...levels, ...(may('operator') ? [['operator', 'operator: also organizations']] : [])]} />
      <${Sight} level=${draft.level} ...${bind('sees')} error=${act.error} />
      <${Field} label="Expires" type="datetime-local" ...${bind('expires_at')} error=${act.error} help="Empty: never." />
    </div>
    <${BudgetFields} ...${bind('budget')} error=${act.error} />
  </${Form}>`
}

/** The text of a new key, this once: it is left by its button alone. @param {{of: any, onClose: () => void}} p */
function Shown({ of, onClose }) {
  return html`<${Dialog} title=${`The key ${of.name}`}>
    <p class="notice"><strong>You can see this only now.</strong> Copy it and store it safely: every holder has the rights of level ${of.level}.</p>
    <p class="secret"><code data-key>${of.key}</code><${Copy} text=${of.key} label="Copy key" shown="Copy key" /></p>
    ${of.previous_until && html`<p>The previous secret is valid until <${Time} at=${of.previous_until} />.</p>`}
    <div class="buttons"><button type="button" class="secondary" onClick=${onClose}>Done</button></div>
  </${Dialog}>`
}

/** @param {{of: any, show: (k: any) => void}} p */
function Verbs({ of, show }) {
  const [rotating, setRotating] = useState(false)
  const revoke = () => ask({
    title: `Revoke ${of.name}?`,
    text: html`<p>The key <strong>${of.name}</strong> (<code>${of.prefix}…</code>) stops working immediately and its streams end. You cannot undo this.</p>`,
    act: async () => { await remove(`/api-keys/${of.api_key_id}`); go(['api-keys']) },
  })
  return html`<span class="buttons flat">
    <button type="button" class="secondary" onClick=${() => setRotating(true)}>Rotate</button>
    <button type="button" class="secondary" onClick=${revoke}>Revoke</button>
    ${rotating && html`<${Rotation} of=${of} onClose=${() => setRotating(false)} done=${(/** @type {any} */ k) => { setRotating(false); show(k) }} />`}
  </span>`
}

const overlaps = [['86400', 'for a day'], ['3600', 'for an hour'], ['604800', 'for a week'], ['0', 'not at all']]

/** @param {{of: any, onClose: () => void, done: (k: any) => void}} p */
function Rotation({ of, onClose, done }) {
  const [overlap, setOverlap] = useState('86400')
  const act = useAct(async () => done(await post(`/api-keys/${of.api_key_id}/rotate`, { overlap_seconds: Number(overlap) })))
  return html`<${Dialog} title=${`Rotate ${of.name}?`} onClose=${onClose}>
    <p>The key gets a new secret. Clients with the old one must change it.</p>
    <${Form} act=${act} submit="Confirm" more=${html`<button type="button" class="secondary" onClick=${onClose}>Keep</button>`}>
      <${Field} label="The old secret stays valid" value=${overlap} onChange=${setOverlap} options=${overlaps} />
    </${Form}>
  </${Dialog}>`
}

/** @param {{id: string}} p */
function Key({ id }) {
  const key = useLive(may('admin') ? `/api-keys/${id}` : null)
  const users = useUsers()
  const [shown, setShown] = useState(/** @type {any} */ (null))
  const budget = useLive(key.data?.budget ? '/budgets' : null, { kind: 'api_key', id })
  const k = key.data
  return html`<${Page} title=${k?.name ?? id} back=${['API keys', to(['api-keys'])]}
    actions=${k && html`<${EditButton} /><${Verbs} of=${k} show=${setShown} />`}>
    ${shown && html`<${Shown} of=${shown} onClose=${() => setShown(null)} />`}
    <${Needs} level="admin" to="Reading an API key"><${Await} of=${key}>${() => html`
      <${Card}><${Facts} rows=${[
        ['Id', html`<${Id} id=${k.api_key_id} />`], ['Prefix', html`<code>${k.prefix}…</code>`], ['Level', html`<${Status} of=${k.level} />`],
        k.sees === 'organization' && ['Sees chats', 'of everybody'],
        ['Owner', html`<a href=${to(['users', k.user_id])}>${users.of(k.user_id) || k.user_id}</a>`],
        ['Last used', html`<${Time} at=${k.last_used_at} />`], ['Expires', k.expires_at ? html`<${Time} at=${k.expires_at} />` : 'never'],
        ['Created', html`<${Time} at=${k.created_at} />`], ['Budget', budgetWords(k.budget) ?? 'none'],
        k.previous_until && ['Previous secret valid until', html`<${Time} at=${k.previous_until} />`],
        ...(budget.data?.budgets ?? []).map((/** @type {any} */ b) => ['Budget used', `${Math.round(b.used * 100)} % (${number(b.tokens)} tokens, ${number(b.runs)} runs)`]),
      ]} /></${Card}>
      <${Edit} of=${key} id=${id} />
      <${Usage} title="Usage" query=${{ api_key_id: id }} />
      <p><a href=${to(['runs'], { api_key_id: id })}>Its runs</a> · <a href=${to(['audit-log'], { api_key_id: id })}>What was changed with it</a></p>`}</${Await}></${Needs}>
  </${Page}>`
}

/** @param {{of: any, id: string}} p */
function Edit({ of, id }) {
  const edit = useEdit(of, `/api-keys/${id}`, (k) => ({ name: k.name, sees: k.sees, expires_at: local(k.expires_at), budget: k.budget }), (changed) => withBudget('expires_at' in changed ? { ...changed, expires_at: instant(changed.expires_at) } : changed))
  return html`<${Card} title="Edit"><${EditForm} edit=${edit}><div class="row">
    <${Field} label="Name" ...${edit.bind('name')} required />
    <${Sight} level=${of.data.level} ...${edit.bind('sees')} />
    <${Field} label="Expires" type="datetime-local" ...${edit.bind('expires_at')} help="Empty: never." /></div>
    <${BudgetFields} ...${edit.bind('budget')} />
  </${EditForm}></${Card}>`
}
