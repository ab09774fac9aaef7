// The audit log: changes and decisions, with their users.
import { html } from '../html.js'
import { may } from '../session.js'
import { words } from '../format.js'
import { place, setQuery, to } from '../router.js'
import { Choice, Field, Late, local } from '../ui/form.js'
import { column, List, useList } from '../ui/list.js'
import { useKeys, useUsers } from '../ui/names.js'
import { Id, Needs, Page, Time } from '../ui/parts.js'

export function Audit() {
  return html`<${Page} title="Audit log"><${Needs} level="admin" to="Reading the audit log"><${Log} /></${Needs}></${Page}>`
}

const kinds = ['agent', 'toolkit', 'user', 'group', 'api_key', 'organization', 'knowledge_base', 'document', 'file', 'run', 'chat', 'delivery']

/** @type {Record<string, string>} */
const sections = { agent: 'agents', toolkit: 'toolkits', user: 'users', group: 'groups', api_key: 'api-keys', knowledge_base: 'knowledge', run: 'runs', chat: 'chat', delivery: 'webhooks' }

/** @param {{kind: string, id: string}} subject */
const placeOf = ({ kind, id }) => (kind === 'organization' ? to(['settings']) : kind === 'document' ? to(['find', id]) : sections[kind] && to([sections[kind], id]))

function Log() {
  const query = Object.fromEntries(place.value.query)
  const list = useList(may('admin') ? '/audit-log' : null, 'entries', 'entry_id', query)
  const users = useUsers()
  const keys = useKeys()
  const set = (/** @type {string} */ name) => (/** @type {string} */ v) => setQuery({ ...query, [name]: v })
  const time = (/** @type {string} */ name) => (/** @type {string} */ v) => set(name)(v && new Date(v).toISOString())
  const columns = [
    column('When', (e) => html`<${Time} at=${e.at} />`),
    column('What', (e) => html`${words(e.operation).replaceAll('-', ' ')}${(e.changed ?? []).length > 0 ? html` <span class="small">${e.changed.join(', ')}</span>` : ''}${(e.decisions ?? []).length > 0
      ? html` <span class="small">${e.decisions.map((/** @type {any} */ d) => d.decision).join(', ')}${e.asked_by && ` for ${e.asked_by.name || e.asked_by.user_id}`}</span>` : ''}`),
    column('Of', (e) => html`<span class="small">${words(e.subject.kind)}</span> <${Id} id=${e.subject.id} href=${placeOf(e.subject)} />`),
    column('By', (e) => html`<a href=${to(['users', e.user_id])}>${users.of(e.user_id) || e.user_id}</a>${e.as_operator ? ' (operator)' : ''}${e.decided_by && e.decided_by !== e.user_id ? ` for ${users.of(e.decided_by) || e.decided_by}` : ''}`, 'narrow'),
    column('With', (e) => html`<a href=${to(['api-keys', e.api_key_id])}>${keys.of(e.api_key_id) || e.api_key_id}</a>`, 'narrow'),
  ]
  return html`<search class="filters" aria-label="Filter the audit log">
      <${Field} label="Kind" value=${query.kind} options=${[['', 'any'], ...kinds.map((k) => [k, words(k)])]} onChange=${set('kind')} />
      <${Late} label="Operation" value=${query.operation} onChange=${set('operation')} />
      <${Choice} label="User" value=${query.user_id} of=${users} first=${[['', 'any']]} onChange=${set('user_id')} />
      <${Choice} label="API key" value=${query.api_key_id} of=${keys} first=${[['', 'any']]} onChange=${set('api_key_id')} />
      <${Late} label="Id" value=${query.subject_id} onChange=${set('subject_id')} />
      <${Field} label="From" type="datetime-local" value=${local(query.from)} onChange=${time('from')} />
      <${Field} label="To" type="datetime-local" value=${local(query.to)} onChange=${time('to')} />
      ${Object.keys(query).length > 0 && html`<button type="button" class="link" onClick=${() => setQuery({})}>Clear filters</button>`}</search>
    <${List} of=${list} columns=${columns} label="Audit log" id="entry_id" empty=${Object.keys(query).length > 0 ? 'No entry matches these filters.' : 'There are no changes yet.'} />`
}
