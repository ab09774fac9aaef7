// Agents: their instructions, their tools and knowledge, and their versions.
import { useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { download, post, remove } from '../api.js'
import { seldom, useAll, useLive } from '../live.js'
import { count } from '../format.js'
import { may } from '../session.js'
import { go, place, to } from '../router.js'
import { Difference } from '../ui/diff.js'
import { ask, Dialog } from '../ui/dialog.js'
import { EditForm, useEdit } from '../ui/edit.js'
import { Act, BudgetFields, budgetWords, Check, Choices, EditButton, Field, Form, Names, numberOrNull, useAct, useDraft, withBudget } from '../ui/form.js'
import { column, List, useList } from '../ui/list.js'
import { useBases, useGroups, useToolkits } from '../ui/names.js'
import { Await, Card, Empty, Facts, Id, Json, Needs, Page, Problem, Status, Time } from '../ui/parts.js'
import { JsonField, readJson } from '../ui/schema.js'
import { useSchemaHelp } from '../ui/schemahelp.js'
import { Usage } from '../ui/usage.js'

export function Agents() {
  const { id } = place.value
  if (id === 'new') return html`<${NewAgent} />`
  return id ? html`<${Agent} id=${id} key=${id} />` : html`<${AgentList} />`
}

function AgentList() {
  const list = useList('/agents', 'agents', 'agent_id')
  const [importing, setImporting] = useState(false)
  const columns = [
    column('Name', (a) => html`<a href=${to(['agents', a.agent_id])}>${a.name}</a>`),
    column('Model', (a) => modelText(a.model)),
    column('Version', (a) => html`${a.published_version}${a.version !== a.published_version && html` <${Status} of="draft" />`}`, 'narrow'),
    column('Approval', (a) => a.approval.mode, 'narrow'),
    column('Updated', (a) => html`<${Time} at=${a.updated_at} />`, 'narrow'),
    column('', (a) => html`<a href=${to(['chat'], { agent: a.agent_id })}>Chat</a>`),
  ]
  return html`<${Page} title="Agents" actions=${may('manage')
    ? html`<button type="button" onClick=${() => go(['agents', 'new'])}>Create agent</button><button type="button" class="secondary" onClick=${() => setImporting(true)}>Import</button>`
    : html`<span class="small">Creating agents needs level manage.</span>`}>
    <${List} of=${list} columns=${columns} label="Agents" id="agent_id" href=${(/** @type {any} */ a) => to(['agents', a.agent_id])} empty="There are no agents that you can see." />
    ${importing && html`<${Import} onClose=${() => setImporting(false)} />`}
  </${Page}>`
}

const modelText = (/** @type {any} */ m) => [m.provider, m.name].filter(Boolean).join('/')

/** @param {{onClose: () => void}} p */
function Import({ onClose }) {
  const [text, setText] = useState('')
  const act = useAct(async () => {
    const a = await post('/agents/import', readJson(text))
    go(['agents', a.agent_id])
    onClose()
  })
  const read = async (/** @type {any} */ e) => setText((await e.target.files[0]?.text()) ?? text)
  let problem = ''
  try { readJson(text) } catch (e) { problem = /** @type {Error} */ (e).message }
  return html`<${Dialog} title="Import an agent" onClose=${onClose}><${Form} act=${act} submit="Import">
    <div class="field"><label for="import-file">File of an export</label><input id="import-file" type="file" accept=".json,application/json" onChange=${read} /></div>
    <${Field} label="Or its text" rows=${8} value=${text} onChange=${setText} problem=${problem} required />
  </${Form}></${Dialog}>`
}

function NewAgent() {
  const { draft, bind } = useDraft(blank)
  const act = useAct(async () => {
    const a = await post('/agents', bodyOf(draft))
    go(['agents', a.agent_id])
  })
  return html`<${Page} title="New agent" back=${['Agents', to(['agents'])]}><${Needs} level="manage" to="Creating an agent">
    <${Form} act=${act} submit="Create agent" class="card"><${AgentFields} draft=${draft} bind=${bind} error=${act.error} /></${Form}>
  </${Needs}></${Page}>`
}

/** @type {any} */
const blank = {
  name: '', description: '', instructions: '', model: { provider: 'demo', name: '', temperature: null, max_tokens: null }, toolkit_ids: null, knowledge_base_ids: [],
  knowledge: { mode: 'hybrid', limit: 6, max_per_document: 3, min_score: null, always: false }, approval: { mode: 'never', tools: [] }, can_ask: true,
  limits: { max_active_seconds: null, max_steps: null, max_tokens: null }, group_ids: [], approver_group_ids: [], chat_visibility: 'organization', budget: null, callback_url: '', output_schema: undefined, skip_check: false,
}

/** The members of an agent that its form has. @param {any} a */
const formOf = (a) => Object.fromEntries(Object.keys(blank).map((k) => [k, a[k] ?? blank[k]]))

/** Its members as the API takes them. @param {Record<string, any>} members */
function bodyOf({ toolkit_ids, skip_check, ...members }) {
  const body = withBudget(members)
  if (toolkit_ids) body.toolkit_ids = toolkit_ids // null: those that a new agent gets
  if (skip_check) body.skip_check = true
  if ('output_schema' in body) body.output_schema ??= null
  if ('callback_url' in body) body.callback_url ||= null
  return body
}

/** @param {{draft: Record<string, any>, bind: (name: string) => any, error: any, open?: boolean}} p */
function AgentFields({ draft, bind, error, open = false }) {
  const models = useLive('/models', {}, seldom)
  const toolkits = useToolkits()
  const bases = useBases()
  const groups = useGroups()
  const say = useSchemaHelp('AgentBody')
  const part = (/** @type {string} */ name, /** @type {string} */ member) => ({
    name: `${name}.${member}`, value: draft[name][member], error,
    onChange: (/** @type {any} */ v) => bind(name).onChange({ ...draft[name], [member]: v }),
  })
  const count = (/** @type {string} */ name, /** @type {string} */ member) => {
    const p = part(name, member)
    return { ...p, type: 'number', help: say(`${name}.${member}`), onChange: (/** @type {string} */ v) => p.onChange(numberOrNull(v)) }
  }
  const chat = (models.data?.models ?? []).filter((/** @type {any} */ m) => m.kind === 'chat')
  const model = modelText(draft.model)
  const known = chat.map((/** @type {any} */ m) => [modelText(m), modelText(m)])
  if (!known.some((/** @type {any} */ [v]) => v === model)) known.unshift([model, model])
  const choose = (/** @type {string} */ v) => {
    const [provider, ...rest] = v.split('/')
    bind('model').onChange({ ...draft.model, provider, name: rest.join('/') })
  }
  return html`
    <div class="row"><${Field} label="Name" ...${bind('name')} error=${error} required />
    <${Field} label="Description" ...${bind('description')} error=${error} /></div>
    <${Field} label="Instructions" rows=${7} ...${bind('instructions')} error=${error} help="The model gets this text before each conversation." />
    <div class="row">
      <${Field} label="Model" value=${model} options=${known} onChange=${choose} name="model" error=${error} />
      <${Field} label="Temperature" type="number" step="any" min="0" max="2" ...${count('model', 'temperature')} />
      <${Field} label="Token limit of an answer" min="1" ...${count('model', 'max_tokens')} />
    </div>
    ${Object.entries(models.data?.unreachable ?? {}).map(([p, why]) => html`<p class="small">${p} does not list its models: ${why}</p>`)}
    <div class="row">
      <${Choices} label="Toolkits" of=${toolkits} value=${draft.toolkit_ids ?? toolkits.all.filter((t) => t.kind === 'builtin').map((t) => t.toolkit_id)} onChange=${bind('toolkit_ids').onChange} help=${say('toolkit_ids')} />
      <${Choices} label="Knowledge bases" of=${bases} value=${draft.knowledge_base_ids} onChange=${bind('knowledge_base_ids').onChange} help=${say('knowledge_base_ids')} />
    </div>
    ${draft.knowledge_base_ids?.length > 0 && html`<div class="row">
      <${Field} label="Search mode" ...${part('knowledge', 'mode')} options=${[['hybrid', 'hybrid'], ['semantic', 'semantic'], ['keyword', 'keyword']]} />
      <${Field} label="Passages of a search" min="1" max="20" ...${count('knowledge', 'limit')} />
      <${Field} label="Passages of one document" min="1" max="20" ...${count('knowledge', 'max_per_document')} />
      <${Field} label="Least score" step="any" min="0" max="1" ...${count('knowledge', 'min_score')} help="From 0 to 1, as the search of a base shows it. Empty: only very weak hits are left out." />
      <${Check} label="Search before each answer" value=${draft.knowledge.always} onChange=${part('knowledge', 'always').onChange} help=${say('knowledge.always')} /></div>`}
    <div class="row">
      <${Field} label="Approval" ...${part('approval', 'mode')} help=${say('approval')} options=${[['never', 'as the toolkits say'], ['always', 'every tool call'], ['tools', 'the tools named here']]} />
      ${draft.approval.mode === 'tools' && html`<${Names} label="Tools that need approval" ...${part('approval', 'tools')} />`}
      <${Check} label="A run's user may approve" value=${draft.approval.self !== false} onChange=${part('approval', 'self').onChange} />
      <${Check} label="May ask" value=${draft.can_ask} onChange=${bind('can_ask').onChange} help=${say('can_ask')} />
    </div>
    <details open=${open}><summary>Limits, budget, groups, output</summary>
      <div class="row">
        <${Field} label="Active seconds of a run" min="10" max="14400" ...${count('limits', 'max_active_seconds')} />
        <${Field} label="Steps of a run" min="1" max="1000" ...${count('limits', 'max_steps')} />
        <${Field} label="Tokens of a run" min="1" ...${count('limits', 'max_tokens')} />
      </div>
      <${BudgetFields} value=${draft.budget} onChange=${bind('budget').onChange} error=${error} />
      <div class="row">
        <${Choices} label="Groups" of=${groups} value=${draft.group_ids} onChange=${bind('group_ids').onChange} help=${say('group_ids')} none=${may('admin') ? undefined : 'Choosing groups needs level admin.'} />
        <${Choices} label="Approvers" of=${groups} value=${draft.approver_group_ids} onChange=${bind('approver_group_ids').onChange} help=${say('approver_group_ids')} none=${may('admin') ? undefined : 'Choosing groups needs level admin.'} />
      </div>
      <${Field} label="Who sees chats" ...${bind('chat_visibility')} error=${error} options=${[['own', 'Only their user and managers'], ['organization', 'As in the organization']]}
        help="The newest version decides, even a draft. Showing its chats again needs level admin." />
      <${Field} label="Callback URL" type="url" ...${bind('callback_url')} error=${error} help=${say('callback_url')} />
      <${JsonField} label="Output schema" value=${draft.output_schema} onChange=${bind('output_schema').onChange} help=${say('output_schema')} name="output_schema" error=${error} />
    </details>
    <${Check} label="Accept a model that cannot be reached now" ...${bind('skip_check')} />`
}

/** @param {{id: string}} p */
function Agent({ id }) {
  const agent = useLive(`/agents/${id}`)
  const a = agent.data
  return html`<${Page} title=${a?.name ?? id} back=${['Agents', to(['agents'])]} actions=${a && html`<${Verbs} of=${a} />`}>
    <${Await} of=${agent}>${() => html`
      ${a.version !== a.published_version && html`<div class="notice"><p>Version ${a.version} is a draft: new runs use version ${a.published_version}.</p></div>`}
      ${(a.problems ?? []).map((/** @type {string} */ p) => html`<p class="wrong" role="status">${p}</p>`)}
      <${Card}><${Facts} rows=${[['Id', html`<${Id} id=${a.agent_id} />`], ['Version', `${a.version}, published: ${a.published_version}`], ['Budget', budgetWords(a.budget) ?? 'none'],
        ['Created', html`<${Time} at=${a.created_at} />`], ['Updated', html`<${Time} at=${a.updated_at} />`]]} />
        <p class="small"><a href=${to(['runs'], { agent_id: id })}>Its runs</a> · <a href=${to(['chat'], { agent: id })}>Chat with it</a></p></${Card}>
      ${may('manage') ? html`<${Edit} of=${agent} id=${id} />` : html`<p class="needs">Editing needs a key of level <strong>manage</strong>.</p><${Json} value=${a} label="All fields" />`}
      <${Tools} id=${id} />
      <${Versions} of=${a} />
      <${Usage} title="Usage" query=${{ agent_id: id }} />`}</${Await}></${Page}>`
}

/** @param {{of: any, id: string}} p */
function Edit({ of, id }) {
  const edit = useEdit(of, `/agents/${id}`, formOf, (changed, _, button) => {
    const publish = button === 'publish'
    return publish || Object.keys(changed).length > 0 ? { ...bodyOf(changed), publish } : null
  })
  return html`<${EditForm} edit=${edit} class="card" more=${html`<button type="submit" class="secondary" value="publish">Save and publish</button>`}>
    <${AgentFields} draft=${edit.draft} bind=${edit.bind} error=${edit.act.error} open /></${EditForm}>`
}

/** @param {{of: any}} p */
function Verbs({ of: a }) {
  const take = html`<${Act} label="Export" act=${() => download(`/agents/${a.agent_id}/export`, `${a.name}.json`)} />`
  if (!may('manage')) return html`${take}<span class="small">Changing it needs level manage.</span>`
  const drop = () => ask({
    title: `Delete ${a.name}?`, text: html`<p>This deletes the agent <strong>${a.name}</strong> with all its versions. Its runs stay readable; active runs continue to their end.</p>`,
    act: async () => { await remove(`/agents/${a.agent_id}`); go(['agents']) },
  })
  const draft = a.version !== a.published_version
  return html`
    <${Act} label="Publish" class="" disabled=${!draft} title=${draft ? undefined : 'The newest version is published'} act=${() => post(`/agents/${a.agent_id}/publish`, { version: a.version })} />
    <${EditButton} />
    <${Act} label="Duplicate" act=${async () => { const copy = await post(`/agents/${a.agent_id}/duplicate`, {}); go(['agents', copy.agent_id]) }} />
    ${take}
    <button type="button" class="secondary" onClick=${drop}>Delete</button>`
}

/** @param {{id: string}} p */
function Tools({ id }) {
  const tools = useAll(`/agents/${id}/tools`, 'tools', 'name')
  return html`<${Card} title="Tools of its runs"><${Await} of=${tools}>${() => tools.data.length === 0 ? html`<${Empty}>None.</${Empty}>` : html`
    <p class="small">${count(tools.data.length, 'tool')} of its toolkits are on; a model takes 128, with those of the agent itself and of its client.</p>
    <div class="table" tabindex="0" role="region" aria-label="Tools"><table><thead><tr><th scope="col">Name</th><th scope="col">Approval</th><th scope="col">What it does</th></tr></thead>
    <tbody>${tools.data.map((/** @type {any} */ t) => html`<tr key=${t.name}><td>${t.toolkit_id ? html`<a href=${to(['toolkits', t.toolkit_id])}><code>${t.name}</code></a>` : html`<code>${t.name}</code>`}</td><td>${t.approval_when ? `when ${t.approval_when.argument} fits` : t.approval}</td><td class="wrap">${t.description}</td></tr>`)}</tbody></table></div>`}</${Await}></${Card}>`
}

/** @param {{of: any}} p */
function Versions({ of: a }) {
  const list = useList(`/agents/${a.agent_id}/versions`, 'versions', 'version')
  const [compared, setCompared] = useState(/** @type {any} */ (null))
  const before = compared && (list.rows ?? []).find((v) => v.version === compared.version - 1)
  const columns = [
    column('Version', (v) => html`${v.version} ${v.version === a.published_version && html`<${Status} of="published" />`}`),
    column('Saved', (v) => html`<${Time} at=${v.updated_at} />`, 'narrow'),
    column('Model', (v) => modelText(v.model), 'narrow'),
    column('', (v) => html`<span class="buttons flat">
      ${v.version > 1 && html`<button type="button" class="secondary" aria-label="Differences of version ${v.version}" onClick=${() => setCompared(v)}>Differences</button>`}
      ${may('manage') && html`<a href=${to(['chat'], { agent: a.agent_id, version: v.version })} aria-label="Try version ${v.version}">Try</a>`}
      ${may('manage') && v.version !== a.published_version && v.version !== a.version && html`<${Act} label="Publish version ${v.version}" act=${() => post(`/agents/${a.agent_id}/publish`, { version: v.version })} />`}</span>`),
  ]
  return html`<${Card} title="Versions"><${List} of=${list} columns=${columns} label="Versions" id="version" empty="There are no versions." />
    ${compared && html`<${Dialog} title="Version ${compared.version} compared with the previous one" onClose=${() => setCompared(null)}>
      ${before ? html`<${Difference} before=${before} after=${compared} ignore=${['version', 'published_version', 'updated_at', 'created_at']} />` : html`<${Problem} error=${{ message: 'The previous version is not in the list: load more versions.' }} />`}</${Dialog}>`}
  </${Card}>`
}
