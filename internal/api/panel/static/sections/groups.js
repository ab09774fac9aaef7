// Groups. Their members share agents, knowledge, approvals and a budget.
import { useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { post, remove } from '../api.js'
import { useLive } from '../live.js'
import { may } from '../session.js'
import { go, place, to } from '../router.js'
import { ask } from '../ui/dialog.js'
import { EditForm, useEdit } from '../ui/edit.js'
import { BudgetFields, budgetWords, Choice, EditButton, Field, Form, useAct, useDraft, withBudget } from '../ui/form.js'
import { column, List, useList } from '../ui/list.js'
import { useUsers } from '../ui/names.js'
import { Await, Card, Facts, Id, Needs, Page, Time } from '../ui/parts.js'

export function Groups() {
  const { id } = place.value
  if (id) return html`<${Group} id=${id} key=${id} />`
  return html`<${Page} title="Groups"><${Needs} level="admin" to="Managing groups"><${Manage} /></${Needs}></${Page}>`
}

function Manage() {
  const list = useList('/groups', 'groups', 'group_id')
  const columns = [
    column('Name', (g) => html`<a href=${to(['groups', g.group_id])}>${g.name}</a>`),
    column('Description', (g) => g.description, 'narrow'),
    column('Budget', (g) => budgetWords(g.budget) ?? 'none', 'narrow'),
    column('Created', (g) => html`<${Time} at=${g.created_at} />`, 'narrow'),
  ]
  const { draft, setDraft, bind } = useDraft({ name: '', description: '' })
  const act = useAct(async () => {
    await post('/groups', draft)
    setDraft({ name: '', description: '' })
  })
  return html`<${Card} title="New group"><${Form} act=${act} submit="Create group" class="inline" label="New group">
      <${Field} label="Name" ...${bind('name')} error=${act.error} required /><${Field} label="Description" ...${bind('description')} error=${act.error} /></${Form}></${Card}>
    <${List} of=${list} columns=${columns} label="Groups" id="group_id" href=${(/** @type {any} */ g) => to(['groups', g.group_id])} empty="There are no groups yet." />`
}

/** @param {{id: string}} p */
function Group({ id }) {
  const group = useLive(may('admin') ? `/groups/${id}` : null)
  const g = group.data
  const drop = () => ask({
    title: `Delete ${g.name}?`, text: html`<p>This deletes the group <strong>${g.name}</strong>, not its members. Only admins keep access to resources of this group alone.</p>`,
    act: async () => { await remove(`/groups/${id}`); go(['groups']) },
  })
  return html`<${Page} title=${g?.name ?? id} back=${['Groups', to(['groups'])]} actions=${g && html`<${EditButton} /><button type="button" class="secondary" onClick=${drop}>Delete</button>`}>
    <${Needs} level="admin" to="Reading a group"><${Await} of=${group}>${() => html`
      <${Card}><${Facts} rows=${[['Id', html`<${Id} id=${id} />`], ['Description', g.description], ['Budget', budgetWords(g.budget) ?? 'none'], ['Created', html`<${Time} at=${g.created_at} />`]]} /></${Card}>
      <${Members} id=${id} name=${g.name} /><${Edit} of=${group} id=${id} />`}</${Await}></${Needs}></${Page}>`
}

/** @param {{id: string, name: string}} p */
function Members({ id, name }) {
  const list = useList(`/groups/${id}/members`, 'members', 'user_id')
  const users = useUsers()
  const [chosen, setChosen] = useState('')
  const act = useAct(async () => {
    await post(`/groups/${id}/members`, { user_id: chosen })
    setChosen('')
  })
  const drop = (/** @type {any} */ u) => ask({
    title: `Remove ${u.email || u.user_id}?`, text: html`<p><strong>${u.name || u.email || u.user_id}</strong> leaves the group <strong>${name}</strong> and loses access that only the group gives.</p>`,
    act: () => remove(`/groups/${id}/members/${u.user_id}`),
  })
  const columns = [
    column('E-mail', (u) => html`<a href=${to(['users', u.user_id])}>${u.email || u.user_id}</a>`),
    column('Name', (u) => u.name, 'narrow'), column('Role', (u) => u.role, 'narrow'),
    column('', (u) => html`<button type="button" class="secondary" onClick=${() => drop(u)}>Remove</button>`),
  ]
  const inside = new Set((list.rows ?? []).map((u) => u.user_id))
  return html`<${Card} title="Members"><${Form} act=${act} submit="Add member" class="inline">
      <${Choice} label="User" value=${chosen} onChange=${setChosen} required of=${{ ...users, options: users.options.filter(([v]) => !inside.has(v)) }} first=${[['', 'choose…']]} /></${Form}>
    <${List} of=${list} columns=${columns} label="Members" id="user_id" empty="The group has no members." /></${Card}>`
}

/** @param {{of: any, id: string}} p */
function Edit({ of, id }) {
  const edit = useEdit(of, `/groups/${id}`, (g) => ({ name: g.name, description: g.description, budget: g.budget }), withBudget)
  return html`<${Card} title="Edit"><${EditForm} edit=${edit}>
    <div class="row"><${Field} label="Name" ...${edit.bind('name')} required /><${Field} label="Description" ...${edit.bind('description')} /></div>
    <${BudgetFields} ...${edit.bind('budget')} /></${EditForm}></${Card}>`
}
