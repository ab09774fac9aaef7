// Toolkits: the origin of tools, which of them are on, which need approval, and a test of one.
import { useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { patch, post, remove } from '../api.js'
import { useAll, useLive } from '../live.js'
import { count } from '../format.js'
import { may } from '../session.js'
import { go, place, to } from '../router.js'
import { Difference } from '../ui/diff.js'
import { ask, Dialog } from '../ui/dialog.js'
import { EditForm, useEdit } from '../ui/edit.js'
import { Act, Check, EditButton, Field, Form, Names, useAct, useDraft } from '../ui/form.js'
import { column, List, useList } from '../ui/list.js'
import { Await, Card, Empty, Facts, Id, Needs, Page, Plain, Problem, Status, Time } from '../ui/parts.js'
import { JsonField, SchemaForm } from '../ui/schema.js'
import { useSchemaHelp } from '../ui/schemahelp.js'

export function Toolkits() {
  const { id } = place.value
  if (id === 'new') return html`<${NewToolkit} />`
  return id ? html`<${Toolkit} id=${id} key=${id} />` : html`<${ToolkitList} />`
}

function ToolkitList() {
  const list = useList('/toolkits', 'toolkits', 'toolkit_id')
  const columns = [
    column('Name', (t) => html`<a href=${to(['toolkits', t.toolkit_id])}>${t.name}</a>`),
    column('Kind', (t) => t.kind),
    column('Tools', (t) => toolsOf(t), 'num'),
    column('Address', (t) => t.url ?? t.base_url ?? '', 'narrow'),
    column('Refreshed', (t) => html`<${Time} at=${t.refreshed_at} />`, 'narrow'),
  ]
  return html`<${Page} title="Toolkits" actions=${may('manage')
    ? html`<button type="button" onClick=${() => go(['toolkits', 'new'])}>Create toolkit</button>` : html`<span class="small">Creating toolkits needs level manage.</span>`}>
    <${List} of=${list} columns=${columns} label="Toolkits" id="toolkit_id" href=${(/** @type {any} */ t) => to(['toolkits', t.toolkit_id])} empty="There are no toolkits yet." /></${Page}>`
}

/** How many tools are on, of how many. @param {any} t */
const toolsOf = (t) => t.enabled_count === undefined || t.enabled_count === t.tool_count ? t.tool_count : `${t.enabled_count} of ${t.tool_count}`

/** Whether a part of a toolkit can be chosen. @param {{kind: string}} t */
const selectable = (t) => t.kind === 'openapi' || t.kind === 'mcp'

/** @param {{bind: (name: string) => any, error: any}} p */
function Selection({ bind, error }) {
  return html`<div class="row"><${Names} label="Include" ...${bind('include')} error=${error} help="Ids of operations or names of tools, tag:TAG or path:PATH; * stands for any characters. Empty: all." />
    <${Names} label="Exclude" ...${bind('exclude')} error=${error} help="Operations or tools to leave out, in the same form." /></div>`
}

const kinds = [['mcp', 'MCP server'], ['openapi', 'OpenAPI document'], ['http', 'one HTTP request']]

function NewToolkit() {
  const { draft, bind } = useDraft(/** @type {any} */ ({
    kind: 'mcp', name: '', url: '', base_url: '', document: '', credentials: null, include: [], exclude: [],
    request: { name: '', description: '', method: 'GET', headers: {}, query: [], body: '', parameters: { type: 'object', properties: {} } },
  }))
  const say = useSchemaHelp('ToolkitBody')
  const act = useAct(async () => {
    /** @type {any} */
    const body = { kind: draft.kind, name: draft.name, credentials: draft.credentials ?? undefined }
    if (draft.url) body.url = draft.url
    if (draft.kind === 'openapi' && draft.base_url) body.base_url = draft.base_url
    if (draft.kind === 'openapi' && draft.document) body.document = draft.document
    if (draft.kind === 'http') body.request = draft.request
    if (selectable(draft) && draft.include.length > 0) body.include = draft.include
    if (selectable(draft) && draft.exclude.length > 0) body.exclude = draft.exclude
    const t = await post('/toolkits', body)
    go(['toolkits', t.toolkit_id])
  })
  const request = (/** @type {string} */ member) => ({
    value: draft.request[member], onChange: (/** @type {any} */ v) => bind('request').onChange({ ...draft.request, [member]: v }),
  })
  return html`<${Page} title="New toolkit" back=${['Toolkits', to(['toolkits'])]}><${Needs} level="manage" to="Creating a toolkit">
    <${Form} act=${act} submit="Create toolkit" class="card">
      <div class="row"><${Field} label="Kind" ...${bind('kind')} options=${kinds} error=${act.error} />
      <${Field} label="Name" ...${bind('name')} error=${act.error} required /></div>
      <${Field} label="URL" type="url" ...${bind('url')} error=${act.error} help=${say('url')} required=${draft.kind !== 'openapi'} />
      ${draft.kind === 'openapi' && html`<${Field} label="Document" rows=${5} ...${bind('document')} error=${act.error} help=${say('document')} />
        <${Field} label="Base URL" type="url" ...${bind('base_url')} error=${act.error} help=${say('base_url')} />`}
      ${selectable(draft) && html`<${Selection} bind=${bind} error=${act.error} />`}
      ${draft.kind === 'http' && html`<div class="row"><${Field} label="Tool name" ...${request('name')} required /><${Field} label="Method" ...${request('method')} options=${['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].map((m) => [m, m])} /></div>
        <${Field} label="Tool description" ...${request('description')} />
        <${JsonField} label="Parameters" rows=${7} ...${request('parameters')} help="A JSON schema of the arguments. {name} in the path of the URL inserts an argument." />
        <div class="row"><${Names} label="Query arguments" ...${request('query')} help="Arguments that become query parameters, separated by commas." />
          <${Field} label="Body argument" ...${request('body')} help="The argument that becomes the JSON body." />
          <${JsonField} label="Headers" rows=${2} ...${request('headers')} help="Headers with fixed values." /></div>`}
      <${Credentials} value=${draft.credentials} onChange=${bind('credentials').onChange} />
      <p class="small">All tools are enabled if there are at most 128. New tools of a later refresh stay off until you enable them.
        Calls of tools that may change data need approval. An admin can change that on the next page.</p>
    </${Form}></${Needs}></${Page}>`
}

/** @param {{value: any, onChange: (v: any) => void}} p */
function Credentials({ value, onChange }) {
  const c = value ?? { type: '' }
  const set = (/** @type {any} */ change) => onChange({ ...c, ...change })
  return html`<fieldset class="row credentials"><legend>Credentials</legend>
    <${Field} label="Credentials type" value=${c.type} onChange=${(/** @type {string} */ v) => onChange(v ? { type: v } : null)} options=${[['', 'none'], ['bearer', 'bearer token'], ['header', 'a header'], ['query', 'a query parameter'], ['basic', 'user and password']]} />
    ${c.type === 'bearer' && html`<${Field} label="Token" type="password" value=${c.token} onChange=${(/** @type {string} */ v) => set({ token: v })} required />`}
    ${(c.type === 'header' || c.type === 'query') && html`<${Field} label="Credential name" value=${c.name} onChange=${(/** @type {string} */ v) => set({ name: v })} required />
      <${Field} label="Value" type="password" value=${c.value} onChange=${(/** @type {string} */ v) => set({ value: v })} required />`}
    ${c.type === 'basic' && html`<${Field} label="Username" value=${c.username} onChange=${(/** @type {string} */ v) => set({ username: v })} required />
      <${Field} label="Password" type="password" value=${c.password} onChange=${(/** @type {string} */ v) => set({ password: v })} required />`}
  </fieldset>`
}

/** @param {{id: string}} p */
function Toolkit({ id }) {
  const kit = useLive(`/toolkits/${id}`)
  const tools = useAll(`/toolkits/${id}/tools`, 'tools', 'name')
  const k = kit.data
  return html`<${Page} title=${k?.name ?? id} back=${['Toolkits', to(['toolkits'])]} actions=${k && k.kind !== 'builtin' && may('manage') && html`<${Verbs} of=${k} />`}>
    <${Await} of=${kit}>${() => html`
      <${Card}><${Facts} rows=${[['Id', html`<${Id} id=${k.toolkit_id} />`], ['Kind', k.kind], ['Address', k.url], k.base_url && ['Base URL', k.base_url],
        ['Credentials', k.credentials_type ?? 'none'], (k.credentials_origins ?? []).length > 0 && ['Sent only to', k.credentials_origins.join(', ')],
        k.include && ['Included', k.include.join(', ')], k.exclude && ['Excluded', k.exclude.join(', ')], ['Tools on', toolsOf(k)],
        ['Refreshed', html`<${Time} at=${k.refreshed_at} />`]]} />${k.note && html`<p class="wrong small" role="status">${k.note}</p>`}</${Card}>
      <${Card} title="Tools"><${Await} of=${tools}>${() => tools.data.length === 0 ? html`<${Empty}>The toolkit has no tools.</${Empty}>`
        : tools.data.map((/** @type {any} */ t) => html`<${Tool} key=${t.name} kit=${k} of=${t} renew=${tools.renew} />`)}</${Await}></${Card}>
      ${k.kind !== 'builtin' && html`<${Edit} of=${kit} />`}
      ${selectable(k) && may('manage') && html`<${Choose} of=${kit} tools=${tools} />`}`}</${Await}></${Page}>`
}

/** @param {{of: any}} p */
function Verbs({ of: k }) {
  const [shown, setShown] = useState(false)
  const drop = () => ask({
    title: `Delete ${k.name}?`, text: html`<p>This deletes the toolkit <strong>${k.name}</strong> with its ${count(k.tool_count, 'tool')}. Agents that use it continue without them.</p>`,
    act: async () => { await remove(`/toolkits/${k.toolkit_id}`); go(['toolkits']) },
  })
  return html`<${EditButton} /><button type="button" class="secondary" onClick=${() => setShown(true)}>Refresh</button>
    <button type="button" class="secondary" onClick=${drop}>Delete</button>
    ${shown && html`<${Refresh} of=${k} onClose=${() => setShown(false)} />`}`
}

/** Shows the changes of a refresh before the user confirms it. @param {{of: any, onClose: () => void}} p */
function Refresh({ of: k, onClose }) {
  const [found, setFound] = useState(/** @type {any} */ (null))
  const look = useAct(async () => setFound(await post(`/toolkits/${k.toolkit_id}/refresh`, { dry_run: true })))
  const take = async () => { await post(`/toolkits/${k.toolkit_id}/refresh`); onClose() }
  const [begun, setBegun] = useState(false)
  if (!begun) { setBegun(true); look.run() }
  const none = found && !['added', 'removed', 'changed'].some((n) => (found[n] ?? []).length > 0)
  return html`<${Dialog} title="Refresh ${k.name}" onClose=${onClose}>
    <${Problem} error=${look.error} retry=${look.run} />
    ${look.busy && html`<p role="status" aria-busy="true">Asking ${k.url ?? k.name} for its tools…</p>`}
    ${none && html`<p role="status">Nothing has changed.</p>`}
    ${found && (found.tools ?? ['added', 'removed', 'changed'].flatMap((change) => (found[change] ?? []).map((/** @type {string} */ name) => ({ name, change }))))
      .map((/** @type {any} */ t) => html`<details key=${t.name}><summary><code>${t.name}</code> ${t.change}</summary>${(t.before || t.after) && html`<${Difference} before=${t.before} after=${t.after} ignore=${['name']} />`}</details>`)}
    ${found && !none && html`<p class="small">New tools stay off until you enable them.</p>`}
    <div class="buttons">${found && !none && html`<${Act} label="Confirm" class="" act=${take} />`}
      <button type="button" class="secondary" onClick=${onClose}>${none ? 'Done' : 'Keep'}</button></div>
  </${Dialog}>`
}

/** @param {{kit: any, of: any, renew: () => Promise<void>}} p */
function Tool({ kit, of: t, renew }) {
  const [open, setOpen] = useState('')
  const toggle = (/** @type {string} */ part) => () => setOpen(open === part ? '' : part)
  const path = `/toolkits/${kit.toolkit_id}/tools/${encodeURIComponent(t.name)}`
  const change = useAct((/** @type {any} */ body) => patch(path, body))
  const fixed = !may('manage') || kit.kind === 'builtin'
  return html`<section class="decision tool" aria-label="Tool ${t.name}">
    <p><code>${t.name}</code> ${!t.enabled && html`<${Status} of="off" />`} <span class="small">${t.description}</span></p>
    ${t.problem && html`<p class="wrong small">${t.problem}</p>`}
    <div class="row">
      <${Check} label="Enable ${t.name}" switch value=${t.enabled} disabled=${fixed} onChange=${(/** @type {boolean} */ v) => change.run({ enabled: v })} />
      <${Field} label="Approval of ${t.name}" value=${t.approval} disabled=${fixed} options=${[['never', 'never'], ['always', 'always'], ['when', 'when an argument matches']]}
        onChange=${(/** @type {string} */ v) => v !== 'when' ? change.run({ approval: v }) : setOpen('rules')} />
      <${Check} label="${t.name} may be called again" value=${t.retry_safe} disabled=${fixed} help="After a crash, without a human decision." onChange=${(/** @type {boolean} */ v) => change.run({ retry_safe: v })} />
      <div class="buttons"><button type="button" class="secondary" aria-label="Try ${t.name}" aria-expanded=${open === 'try' ? 'true' : 'false'} onClick=${toggle('try')}>Try</button>
        <button type="button" class="secondary" aria-label="Rules of ${t.name}" aria-expanded=${open === 'rules' ? 'true' : 'false'} onClick=${toggle('rules')}>Rules</button></div>
    </div>
    <${Problem} error=${change.error} />
    ${open === 'rules' && html`<${Rules} path=${path} of=${t} renew=${renew} fixed=${fixed} />`}
    ${open === 'try' && html`<${Try} kit=${kit} of=${t} />`}
  </section>`
}

/** @param {any} t */
const rulesForm = (t) => ({ timeout_ms: t.timeout_ms, argument: t.approval_when?.argument ?? '', pattern: t.approval_when?.pattern ?? '' })

/** @param {Record<string, any>} changed @param {Record<string, any>} draft */
const rulesBody = ({ argument, pattern, ...body }, draft) => (argument ?? pattern) === undefined ? body
  : { ...body, ...(draft.argument ? { approval: 'when', approval_when: { argument: draft.argument, pattern: draft.pattern } } : { approval: 'never' }) }

/** @param {{path: string, of: any, renew: () => Promise<void>, fixed: boolean}} p */
function Rules({ path, of: t, renew, fixed }) {
  const edit = useEdit({ data: t, renew }, path, rulesForm, rulesBody)
  if (fixed) return html`<p class="small">${may('manage') ? 'Tools of the built-in toolkit have no rules of their own; the agent\'s approval setting applies.' : 'Changing the rules of tools needs a key of level manage.'}</p>`
  return html`<${EditForm} edit=${edit} class="inline" label="Rules of ${t.name}">
    <${Field} label="Timeout (ms)" min="1" ...${edit.number('timeout_ms')} />
    <${Field} label="Approval when argument" ...${edit.bind('argument')} />
    <${Field} label="Matches the pattern" ...${edit.bind('pattern')} />
  </${EditForm}>`
}

/** @param {{kit: any, of: any}} p */
function Try({ kit, of: t }) {
  const [value, setValue] = useState(/** @type {any} */ ({}))
  const [result, setResult] = useState(/** @type {any} */ (null))
  const act = useAct(async () => setResult(await post(`/toolkits/${kit.toolkit_id}/tools/${encodeURIComponent(t.name)}/try`, { arguments: value })))
  return html`<${Needs} level="manage" to="Trying a tool"><${Form} act=${act} submit="Try" label="Try ${t.name}">
    <${SchemaForm} schema=${t.parameters} value=${value} onChange=${setValue} /></${Form}>
    ${result && html`<div role="status"><p class="small">It took ${result.duration_ms} ms.</p><${Plain} text=${result.error ?? result.result} code="Result of ${t.name}" /></div>`}</${Needs}>`
}

/** Chooses a part of the server's offer. @param {{of: any, tools: any}} p */
function Choose({ of, tools }) {
  const edit = useEdit({ ...of, renew: () => Promise.all([of.renew(), tools.renew()]) }, `/toolkits/${of.data.toolkit_id}`,
    (t) => ({ include: t.include ?? [], exclude: t.exclude ?? [] }))
  return html`<${Card} title="Choose tools"><${Form} act=${edit.act} submit="Choose tools" more=${edit.saved && html`<span class="small" role="status">Chosen.</span>`}>
    ${edit.notice}<${Selection} bind=${edit.bind} error=${edit.act.error} />
    <p class="small">This reads the server again, like a refresh. New tools stay off until you enable them.</p></${Form}></${Card}>`
}

/** @param {{of: any}} p */
function Edit({ of }) {
  const k = of.data
  const edit = useEdit(of, `/toolkits/${k.toolkit_id}`, (t) => ({ name: t.name, url: t.url ?? '', credentials: undefined }))
  const { draft, bind } = edit
  const [replacing, setReplacing] = useState(false)
  return html`<${Card} title="Edit"><${Needs} level="manage" to="Editing a toolkit"><${EditForm} edit=${edit}>
    <div class="row"><${Field} label="Name" ...${bind('name')} required /><${Field} label="URL" ...${bind('url')} /></div>
    ${replacing ? html`<${Credentials} value=${draft.credentials} onChange=${bind('credentials').onChange} />`
      : html`<p class="small">Credentials: ${k.credentials_type ?? 'none'}. <button type="button" class="link" onClick=${() => setReplacing(true)}>Replace them</button></p>`}
  </${EditForm}></${Needs}></${Card}>`
}
