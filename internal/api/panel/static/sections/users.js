// Users: the list, their rights and their limits.
import { html } from '../html.js'
import { post, remove } from '../api.js'
import { useLive } from '../live.js'
import { may } from '../session.js'
import { go, place, setQuery, to } from '../router.js'
import { ask } from '../ui/dialog.js'
import { EditForm, useEdit } from '../ui/edit.js'
import { BudgetFields, budgetWords, Choices, EditButton, Field, Form, Late, numberOrNull, useAct, useDraft, withBudget } from '../ui/form.js'
import { column, List, useList } from '../ui/list.js'
import { useGroups } from '../ui/names.js'
import { Await, Card, Facts, Id, Needs, Page, Status, Time } from '../ui/parts.js'
import { Usage } from '../ui/usage.js'

export function Users() {
  const { id } = place.value
  if (id) return html`<${User} id=${id} key=${id} />`
  return html`<${Page} title="Users"><${Needs} level="admin" to="Managing users"><${Manage} /></${Needs}></${Page}>`
}

const roles = [['member', 'member: uses agents'], ['manager', 'manager: also edits agents, toolkits, knowledge'], ['admin', 'admin: everything in the organization']]

/** @type {Record<string, any>} */
const nobody = { email: '', name: '', role: 'member', group_ids: [], concurrency_cap: null, budget: null }

function Manage() {
  const query = { q: place.value.query.get('q') ?? '', role: place.value.query.get('role') ?? '' }
  const list = useList('/users', 'users', 'user_id', query)
  const groups = useGroups()
  const columns = [
    column('E-mail', (u) => html`<a href=${to(['users', u.user_id])}>${u.email || u.user_id}</a>`),
    column('Name', (u) => u.name, 'narrow'),
    column('Role', (u) => html`<${Status} of=${u.role} />`),
    column('Groups', (u) => (u.group_ids ?? []).map((/** @type {string} */ g) => groups.of(g) || g).join(', '), 'narrow'),
    column('Cap', (u) => u.concurrency_cap ?? 'default', 'narrow'),
    column('Budget', (u) => budgetWords(u.budget) ?? 'none', 'narrow'),
    column('Created', (u) => html`<${Time} at=${u.created_at} />`, 'narrow'),
  ]
  const { draft, setDraft, bind } = useDraft(nobody)
  const act = useAct(async () => {
    await post('/users', withBudget(draft))
    setDraft(nobody)
  })
  return html`<${Card} title="New user"><${Form} act=${act} submit="Create user" label="New user">
      <div class="row"><${Field} label="E-mail" type="email" ...${bind('email')} error=${act.error} required />
      <${Field} label="Name" ...${bind('name')} error=${act.error} />
      <${Field} label="Role" ...${bind('role')} error=${act.error} options=${roles} /></div>
      <details><summary>Groups, cap, budget</summary>
        <${Choices} label="Groups" of=${groups} ...${bind('group_ids')} />
        <div class="row"><${Field} label="Cap of active runs" type="number" min="1" ...${bind('concurrency_cap')} value=${draft.concurrency_cap ?? ''} error=${act.error} help="Empty: the default."
          onChange=${(/** @type {string} */ v) => bind('concurrency_cap').onChange(numberOrNull(v))} /></div>
        <${BudgetFields} ...${bind('budget')} error=${act.error} /></details></${Form}></${Card}>
    <search class="filters" aria-label="Filter users"><${Late} label="Find" value=${query.q} onChange=${(/** @type {string} */ q) => setQuery({ ...query, q })} />
      <${Field} label="With role" value=${query.role} onChange=${(/** @type {string} */ role) => setQuery({ ...query, role })} options=${[['', 'any'], ['member', 'member'], ['manager', 'manager'], ['admin', 'admin']]} /></search>
    <${List} of=${list} columns=${columns} label="Users" id="user_id" href=${(/** @type {any} */ u) => to(['users', u.user_id])} empty="No user matches." />`
}

/** @param {{id: string}} p */
function User({ id }) {
  const user = useLive(may('admin') ? `/users/${id}` : null)
  const u = user.data
  const drop = () => ask({
    title: `Delete ${u.email}?`, text: html`<p>The user <strong>${u.name || u.email}</strong> is deleted: their keys stop working immediately, their runs are cancelled and their chats deleted. Documents stay.</p>`,
    act: async () => { await remove(`/users/${id}`); go(['users']) },
  })
  return html`<${Page} title=${u?.name || u?.email || id} back=${['Users', to(['users'])]} actions=${u && html`<${EditButton} /><button type="button" class="secondary" onClick=${drop}>Delete</button>`}>
    <${Needs} level="admin" to="Reading a user"><${Await} of=${user}>${() => html`
      <${Card}><${Facts} rows=${[['Id', html`<${Id} id=${id} />`], ['E-mail', u.email], ['Role', html`<${Status} of=${u.role} />`], ['Cap of active runs', u.concurrency_cap ?? 'the default'],
        ['Budget', budgetWords(u.budget) ?? 'none'], ['Created', html`<${Time} at=${u.created_at} />`]]} />
        <p class="small"><a href=${to(['runs'], { user_id: id })}>Their runs</a> · <a href=${to(['audit-log'], { user_id: id })}>Their changes</a></p></${Card}>
      <${Edit} of=${user} id=${id} />
      <${Usage} title="Usage" query=${{ user_id: id }} />`}</${Await}></${Needs}></${Page}>`
}

/** @param {{of: any, id: string}} p */
function Edit({ of, id }) {
  const groups = useGroups()
  const edit = useEdit(of, `/users/${id}`, (u) => ({ email: u.email, name: u.name, role: u.role, group_ids: u.group_ids ?? [], concurrency_cap: u.concurrency_cap, budget: u.budget }), withBudget)
  const { bind } = edit
  return html`<${Card} title="Edit"><${EditForm} edit=${edit}>
    <div class="row"><${Field} label="E-mail" type="email" ...${bind('email')} required /><${Field} label="Name" ...${bind('name')} />
      <${Field} label="Role" ...${bind('role')} options=${roles} /><${Field} label="Cap of active runs" min="1" ...${edit.number('concurrency_cap')} help="Empty: the default." /></div>
    <${Choices} label="Groups" of=${groups} ...${bind('group_ids')} />
    <${BudgetFields} ...${bind('budget')} />
  </${EditForm}></${Card}>`
}
