// Knowledge bases: documents with their state, failures with their reasons, and the search that agents use.
import { useEffect, useMemo, useRef, useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { download, Failure, patch, post, put, remove, request, sendDocument } from '../api.js'
import { often, seldom, slowly, useLive, usePages } from '../live.js'
import { bytes, count, number } from '../format.js'
import { may } from '../session.js'
import { go, place, setQuery, to } from '../router.js'
import { ask, Dialog } from '../ui/dialog.js'
import { stands } from '../ui/cited.js'
import { EditForm, useEdit } from '../ui/edit.js'
import { Act, Choices, EditButton, Field, Form, Late, useAct, useDraft } from '../ui/form.js'
import { column, List, useChosen, useList } from '../ui/list.js'
import { useBases, useGroups } from '../ui/names.js'
import { Await, Card, Copy, Empty, Facts, Id, Json, Needs, Page, Problem, Status, Time } from '../ui/parts.js'
import { JsonField } from '../ui/schema.js'
import { useSchemaHelp } from '../ui/schemahelp.js'
import { followed, pagesText, underWay } from '../ui/uploads.js'

export function Knowledge() {
  const { id, more } = place.value
  if (id && more[0]) return html`<${Document} base=${id} id=${more[0]} key=${more[0]} />`
  return id ? html`<${Base} id=${id} key=${id} />` : html`<${BaseList} />`
}

function BaseList() {
  const list = useList('/knowledge-bases', 'knowledge_bases', 'knowledge_base_id')
  const failed = place.value.query.get('status') === 'failed'
  const columns = [
    column('Name', (b) => html`<a href=${to(['knowledge', b.knowledge_base_id])}>${b.name}</a>`),
    column('Documents', (b) => number(b.document_count), 'num'),
    column('Failed', (b) => (b.documents.failed > 0 ? html`<strong class="wrong">${number(b.documents.failed)}</strong>` : '0'), 'num'),
    column('Chunks', (b) => number(b.chunk_count), 'num narrow'),
    column('Size', (b) => bytes(b.bytes), 'num narrow'),
    column('Index', (b) => html`<${Status} of=${b.index.state} />`, 'narrow'),
    column('Model', (b) => [b.embedding_model.provider, b.embedding_model.name].filter(Boolean).join('/'), 'narrow'),
  ]
  return html`<${Page} title="Knowledge">
    <${Card} title="New base"><${Needs} level="manage" to="Creating a base"><${NewBase} /></${Needs}></${Card}>
    ${failed && html`<${Card} title="Failed documents" actions=${html`<a href=${to(['knowledge'])}>Show the bases alone</a>`}><${FailedDocuments} /></${Card}>`}
    <${List} of=${list} columns=${columns} label="Knowledge bases" id="knowledge_base_id" href=${(/** @type {any} */ b) => to(['knowledge', b.knowledge_base_id])} empty="There are no knowledge bases that you can see." />
    <${Card} title="Search"><${Search} /></${Card}></${Page}>`
}

function NewBase() {
  const { draft, setDraft, bind } = useDraft({ name: '', description: '' })
  const act = useAct(async () => {
    const b = await post('/knowledge-bases', draft)
    setDraft({ name: '', description: '' })
    go(['knowledge', b.knowledge_base_id])
  })
  return html`<${Form} act=${act} submit="Create base" class="inline" label="New base">
    <${Field} label="Name" ...${bind('name')} error=${act.error} required />
    <${Field} label="Description" ...${bind('description')} error=${act.error} /></${Form}>`
}

function FailedDocuments() {
  const list = useList('/documents', 'documents', 'document_id', { status: 'failed' })
  return html`<${List} of=${list} columns=${documentColumns} label="Failed documents" id="document_id" empty="No document has failed." />`
}

/** @param {{id: string}} p */
function Base({ id }) {
  const base = useLive(`/knowledge-bases/${id}`)
  const b = base.data
  const query = { q: place.value.query.get('q') ?? '', status: place.value.query.get('status') ?? '' }
  const list = useList(`/knowledge-bases/${id}/documents`, 'documents', 'document_id', query)
  const chosen = useChosen(list, 'document_id', (d) => d.title)
  const [adding, setAdding] = useState(false)
  const drop = () => ask({
    title: `Delete ${b.name}?`, text: html`<p>This deletes the base <strong>${b.name}</strong> with its ${count(b.document_count, 'document')}. No search finds them any longer.</p>`,
    act: async () => { await remove(`/knowledge-bases/${id}`); go(['knowledge']) },
  })
  return html`<${Page} title=${b?.name ?? id} back=${['Knowledge', to(['knowledge'])]} actions=${b && may('manage') && html`
      <button type="button" onClick=${() => setAdding(true)}>Add document</button>
      ${b.documents.failed > 0 && html`<${Act} label="Try all failed again" act=${() => post(`/knowledge-bases/${id}/reprocess`, { status: 'failed' })} />`}
      <${EditButton} /><button type="button" class="secondary" onClick=${drop}>Delete</button>`}>
    <${Await} of=${base}>${() => html`
      <${Index} of=${b} />
      <${Card}><${Facts} rows=${[['Id', html`<${Id} id=${id} />`], ['Description', b.description], ['Documents', `${number(b.document_count)}: ${b.documents.ready} ready, ${b.documents.processing + b.documents.pending} on the way, ${b.documents.failed} failed`],
        ['Chunks', number(b.chunk_count)], ['Size', bytes(b.bytes)], ['Embedding model', `${b.embedding_model.provider}/${b.embedding_model.name}, ${b.embedding_model.dimensions} dimensions`], ['Chunking', `${b.chunking.size} words, ${b.chunking.overlap} shared`], ['Language', languageText(b.language)]]} /></${Card}>
      <${Needs} level="manage" to="Adding documents"><${Uploads} id=${id} /></${Needs}>
      <${Card} title="Documents">
        <search class="filters" aria-label="Filter documents">
          <${Late} label="Title" value=${query.q} onChange=${(/** @type {string} */ q) => setQuery({ ...query, q })} />
          <${Field} label="Status" value=${query.status} onChange=${(/** @type {string} */ status) => setQuery({ ...query, status })} options=${[['', 'any'], ['pending', 'pending'], ['processing', 'processing'], ['ready', 'ready'], ['failed', 'failed']]} /></search>
        ${may('manage') && chosen.rows.length > 0 && html`<${Several} base=${id} chosen=${chosen} />`}
        <${List} of=${list} columns=${may('manage') ? [chosen.column, ...documentColumns] : documentColumns} label="Documents" id="document_id" empty=${query.q || query.status ? 'No document matches.' : 'There are no documents yet: drop files above, or add a text or an address.'} />
      </${Card}>
      <${Card} title="Search"><${Search} bases=${[id]} /></${Card}>
      <${EditBase} of=${base} />`}</${Await}>
    ${adding && html`<${AddDocument} id=${id} onClose=${() => setAdding(false)} />`}
  </${Page}>`
}

/** @param {{of: any}} p */
function Index({ of: b }) {
  if (b.index.state === 'ready') return null
  const back = () => ask({
    title: 'Go back to the old settings?', text: html`<p>This deletes the new index of <strong>${b.name}</strong>, which has ${number(b.index.done)} of ${number(b.index.total)} documents.</p>`,
    act: () => remove(`/knowledge-bases/${b.knowledge_base_id}/rebuild`),
  })
  return html`<div class="notice"><p>The index is ${b.index.state}: ${number(b.index.done)} of ${number(b.index.total)} documents. Until it is complete, searches use the old one. ${b.index.error ?? ''}</p>
    <progress max=${b.index.total || 1} value=${b.index.done} aria-label="Rebuilding"></progress>
    ${may('manage') && html`<button type="button" class="secondary" onClick=${back}>Go back to the old settings</button>`}</div>`
}

const documentColumns = [
  column('Title', (d) => html`<a href=${to(['knowledge', d.knowledge_base_id, d.document_id])}>${d.title}</a>`, 'name'),
  column('Status', (d) => html`<${Progress} of=${d} />`, 'wrap'),
  column('Chunks', (d) => number(d.chunk_count), 'num narrow'),
  column('Size', (d) => bytes(d.size), 'num narrow'),
  column('Updated', (d) => html`<${Time} at=${d.updated_at} />`, 'narrow'),
  column('', (d) => (may('manage') && (d.status === 'failed' || d.last_error) ? html`<${Again} of=${d} />` : ''), 'wrap'),
]

/** Changes the chosen documents, four at a time. Those that refuse it stay chosen, with the reason. @param {{base: string, chosen: ReturnType<typeof useChosen>}} p */
function Several({ base, chosen }) {
  const [language, setLanguage] = useState('auto')
  const [refused, setRefused] = useState(/** @type {Array<{document: any, error: any}>} */ ([]))
  const all = async (/** @type {(path: string) => Promise<any>} */ act) => {
    const wrong = /** @type {Array<{document: any, error: any}>} */ ([])
    await severally(4, chosen.rows, async (document) => {
      try {
        await act(`/knowledge-bases/${base}/documents/${document.document_id}`)
      } catch (error) {
        wrong.push({ document, error })
      }
    })
    setRefused(wrong)
    chosen.choose(wrong.map((w) => w.document.document_id))
  }
  const n = count(chosen.rows.length, 'document')
  const drop = () => ask({ title: `Delete ${n}?`, text: html`<p>Searches and citations no longer show them.</p>`, act: () => all(remove) })
  return html`<fieldset class="buttons chosen" aria-label="Chosen documents"><span role="status">${n} chosen</span>
      <${Act} label="Try again" name="Try again: the chosen" act=${() => all((path) => post(`${path}/reprocess`))} />
      <button type="button" class="secondary" aria-label="Delete the chosen" onClick=${drop}>Delete</button>
      <${Language} label="Language of the chosen" value=${language} onChange=${setLanguage} />
      <${Act} label="Set language" act=${() => all((path) => patch(path, { language }))} />
      ${refused.length > 0 && html`<ul aria-label="Refused">${refused.map((w) => html`<li>${w.document.title}<${Problem} error=${w.error} /></li>`)}</ul>`}</fieldset>`
}

/** Does something with each of several, some at a time. @template T @param {number} most @param {T[]} of @param {(one: T) => Promise<void>} act */
async function severally(most, of, act) {
  const queue = [...of]
  const work = async () => {
    for (let one = queue.shift(); one; one = queue.shift()) await act(one)
  }
  await Promise.all(Array.from({ length: most }, work))
}

const languages = new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' })

/** @param {string} code */
function languageText(code) {
  const name = /^[a-z]{2}$/.test(code ?? '') && languages.of(code)
  return name ? `${name} (${code})` : code
}

/** A language; the typed text is a code of ISO 639-1, or auto. @param {any} p */
function Language({ value, ...rest }) {
  const name = languageText(value)
  return html`<${Field} label="Language" ...${rest} value=${value} help=${name !== value ? name : 'auto, or a code such as de'} />`
}

/** The state of a document; the reason of its failure; and the missing part of its text. @param {{of: any}} p */
function Progress({ of: d }) {
  const { done, total } = d.progress ?? {}
  return html`<${Status} of=${d.status} />
    ${d.stage && ['processing', 'failed'].includes(d.status) && html` <span class="small">${d.stage}</span>`}
    ${d.status === 'processing' && total > 0 && html` <progress max=${total} value=${done} aria-label="Progress of ${d.title}"></progress>`}
    ${d.error && html`<div class="small wrong reason">${d.error}</div>`}
    ${d.last_error && html`<div class="small reason">The last attempt failed, so search finds the text before it: ${d.last_error.error}</div>`}
    ${d.warnings?.length > 0 && html`<ul class="small reason" aria-label="Warnings of ${d.title}">${d.warnings.map((/** @type {any} */ w) => html`<li>${pagesText(w)}: ${w.message}</li>`)}</ul>`}`
}

/** @param {{of: any}} p */
function Again({ of: d }) {
  return html`<${Act} label="Try again" act=${() => post(`/knowledge-bases/${d.knowledge_base_id}/documents/${d.document_id}/reprocess`)} />`
}

/** Reads a document until it is seen in another state; one that was deleted has failed. @param {{path: string, of: any, seen: (document: any) => void}} p @returns {any} */
function Followed({ path, of, seen }) {
  const { data, error } = useLive(`${path}/${of.document_id}`)
  useEffect(() => {
    if (error?.status === 404) seen({ ...of, status: 'failed', error: 'The document was deleted.' })
    else if (data) seen(data)
  }, [data, error])
  return null
}

/** @typedef {{file: File, share: number, error: any, document: any, duplicate: boolean, stop: AbortController}} Sending document: the resulting document, as it was read last */

/** Files that are dropped or chosen, sent two at a time, each with its progress: of the upload, then of its document. @param {{id: string}} p */
function Uploads({ id }) {
  const path = `/knowledge-bases/${id}/documents`
  const [sending, setSending] = useState(/** @type {Sending[]} */ ([]))
  const [chosen, setChosen] = useState(/** @type {File[]} */ ([]))
  const [over, setOver] = useState(false)
  const input = useRef(/** @type {HTMLInputElement|null} */ (null))
  const change = (/** @type {Sending} */ s, /** @type {Partial<Sending>} */ to) => {
    Object.assign(s, to)
    setSending((all) => [...all])
  }
  const send = async (/** @type {File[]} */ files) => {
    if (files.length === 0) return input.current?.click()
    const fresh = files.map((file) => /** @type {Sending} */ ({ file, share: 0, error: null, document: null, duplicate: false, stop: new AbortController() }))
    setSending((all) => [...all.filter((s) => s.document?.status !== 'ready'), ...fresh])
    setChosen([])
    if (input.current) input.current.value = ''
    await severally(2, fresh, one)
  }
  const sent = sending.filter((s) => s.document)
  const pages = usePages(sent.length > 0 ? path : null, 'documents', 'document_id', {}, sent.some((s) => underWay(s.document)) ? often : slowly, Math.min(100, sending.length))
  const rows = /** @type {any[]|null} */ (pages.data.value?.rows ?? null)
  const { news, alone } = followed(sent, rows, 20)
  useEffect(() => { for (const [s, document] of news) change(s, { document }) }, [rows, sending])
  const stop = (/** @type {Sending} */ s) => {
    s.stop.abort()
    change(s, { error: new Failure(0, { code: 'stopped', detail: 'Stopped by you.' }) })
  }
  const one = async (/** @type {Sending} */ s) => {
    if (s.stop.signal.aborted) return
    try {
      const document = await sendDocument('POST', path, s.file, (share) => change(s, { share }), s.stop.signal)
      change(s, { document, duplicate: !!document.duplicate, error: null })
    } catch (error) {
      if (!s.stop.signal.aborted) change(s, { error })
    }
  }
  const drop = (/** @type {DragEvent} */ e) => {
    e.preventDefault()
    setOver(false)
    send([...(e.dataTransfer?.files ?? [])])
  }
  return html`${alone.map((s) => html`<${Followed} key=${s.document.document_id} path=${path} of=${s.document} seen=${(/** @type {any} */ document) => change(s, { document })} />`)}
  <div class="drop ${over ? 'over' : ''}" onDragOver=${(/** @type {Event} */ e) => { e.preventDefault(); setOver(true) }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <form class="inline" aria-label="Upload" onSubmit=${(/** @type {Event} */ e) => { e.preventDefault(); send(chosen) }}>
      <div class="field"><label for="documents">Files</label><input id="documents" type="file" multiple ref=${input} onChange=${(/** @type {any} */ e) => setChosen([...e.target.files])} /></div>
      <div class="buttons"><button type="submit">Upload</button></div>
      <span class="small">or drop them here: PDF, Word, HTML, Markdown, tables and other formats</span>
    </form>
    ${sending.length > 0 && html`<ul class="sending" aria-label="Uploads">${sending.map((s) => html`<li>${s.file.name} <span class="small">${bytes(s.file.size)}</span>
      ${s.document ? html` ${s.duplicate && html`<a href=${to(['knowledge', id, s.document.document_id])}>already exists</a> `}<${Progress} of=${s.document} />` : s.error ? html` <button type="button" class="link" onClick=${() => { change(s, { error: null, share: 0, stop: new AbortController() }); one(s) }}>Try again</button><${Problem} error=${s.error} />`
        : html` <progress max="1" value=${s.share} aria-label="Upload of ${s.file.name}"></progress> <button type="button" class="link" aria-label="Stop the upload of ${s.file.name}" onClick=${() => stop(s)}>Stop</button>`}</li>`)}</ul>`}
  </div>`
}

/** @param {{id: string, onClose: () => void}} p */
function AddDocument({ id, onClose }) {
  const groups = useGroups()
  const { draft, bind } = useDraft(/** @type {any} */ ({ kind: 'text', title: '', text: '', url: '', language: 'auto', metadata: undefined, group_ids: [] }))
  const act = useAct(async () => {
    const from = draft.kind === 'text' ? { title: draft.title, text: draft.text } : { url: draft.url, title: draft.title || undefined }
    await post(`/knowledge-bases/${id}/documents`, { ...from, language: draft.language || undefined, metadata: draft.metadata, group_ids: draft.group_ids.length > 0 ? draft.group_ids : undefined })
    onClose()
  })
  return html`<${Dialog} title="Add document" onClose=${onClose}><${Form} act=${act} submit="Add document">
    <${Field} label="From" ...${bind('kind')} options=${[['text', 'a text'], ['url', 'an address']]} />
    <${Field} label="Title" ...${bind('title')} error=${act.error} required=${draft.kind === 'text'} />
    <${Content} draft=${draft} bind=${bind} error=${act.error} />
    <details><summary>Language, metadata, groups</summary><${Language} ...${bind('language')} error=${act.error} /><${Further} bind=${bind} groups=${groups} error=${act.error} /></details>
  </${Form}></${Dialog}>`
}

/** A text or an address. @param {{draft: any, bind: (name: string) => any, error: any}} p */
function Content({ draft, bind, error }) {
  return draft.kind === 'text' ? html`<${Field} label="Text" rows=${8} ...${bind('text')} error=${error} required />` : html`<${Field} label="URL" type="url" ...${bind('url')} error=${error} required />`
}

/** Gives a document another content. @param {{of: any, path: string, onClose: () => void}} p */
function Replace({ of: d, path, onClose }) {
  const { draft, bind } = useDraft(/** @type {any} */ ({ kind: 'file', file: null, text: '', url: '' }))
  const [share, setShare] = useState(0)
  const [same, setSame] = useState(false)
  const stop = useMemo(() => new AbortController(), [])
  useEffect(() => () => stop.abort(), [])
  const act = useAct(async () => {
    setSame(false)
    const now = draft.kind === 'file' ? await sendDocument('PUT', `${path}/content`, draft.file, setShare, stop.signal) : await put(`${path}/content`, { [draft.kind]: draft[draft.kind] })
    if (underWay(now)) onClose()
    else setSame(true)
  })
  return html`<${Dialog} title="Replace the content of ${d.title}" onClose=${onClose}><${Form} act=${act} submit="Replace content">
    <p class="small">Searches find the old text until the new one is ready.</p>
    <${Field} label="From" ...${bind('kind')} options=${[['file', 'a file'], ['text', 'a text'], ['url', 'an address']]} />
    ${draft.kind === 'file' ? html`<div class="field"><label for="replacement">File</label><input id="replacement" type="file" required onChange=${(/** @type {any} */ e) => bind('file').onChange(e.target.files[0])} /></div>`
      : html`<${Content} draft=${draft} bind=${bind} error=${act.error} />`}
    ${act.busy && draft.kind === 'file' && html`<progress max="1" value=${share} aria-label="Upload of ${draft.file.name}"></progress>`}
    ${same && html`<p role="status">The document has this content already.</p>`}
  </${Form}></${Dialog}>`
}

/**
 * The metadata of a document, by which searches filter, and its groups.
 * @param {{bind: (name: string) => any, groups: import('../ui/names.js').Names, error?: any}} p
 */
function Further({ bind, groups, error }) {
  return html`<${JsonField} label="Metadata" ...${bind('metadata')} error=${error} help="A JSON object; searches can filter by it." />
    <${Choices} label="Groups" of=${groups} ...${bind('group_ids')} help="Only members of these groups find it, if they may read its base." none=${may('admin') ? undefined : 'Choosing groups needs level admin.'} />`
}

/** @param {any} m */
const modelText = (m) => [m.provider, m.name].filter(Boolean).join('/')

/** @param {any} b */
const baseForm = (b) => ({ name: b.name, description: b.description, group_ids: b.group_ids ?? [], language: b.language, model: modelText(b.embedding_model), size: b.chunking.size, overlap: b.chunking.overlap })

/** @param {Record<string, any>} changed @param {Record<string, any>} draft */
function baseBody({ model, size, overlap, ...body }, draft) {
  if (model) {
    const [provider, ...rest] = model.split('/')
    body.embedding_model = { provider, name: rest.join('/') }
  }
  if (size !== undefined || overlap !== undefined) body.chunking = { size: draft.size, overlap: draft.overlap }
  return body
}

/** @param {{of: any}} p */
function EditBase({ of }) {
  const models = useLive('/models', {}, seldom)
  const groups = useGroups()
  const say = useSchemaHelp('BaseBody')
  const edit = useEdit(of, `/knowledge-bases/${of.data.knowledge_base_id}`, baseForm, baseBody)
  const { draft, bind } = edit
  const options = (models.data?.models ?? []).filter((/** @type {any} */ m) => m.kind === 'embedding').map((/** @type {any} */ m) => [modelText(m), modelText(m)])
  if (!options.some((/** @type {any} */ [v]) => v === draft.model)) options.unshift([draft.model, draft.model])
  return html`<${Card} title="Edit"><${Needs} level="manage" to="Editing a base"><${EditForm} edit=${edit}>
    <div class="row"><${Field} label="Name" ...${bind('name')} required /><${Field} label="Description" ...${bind('description')} /></div>
    <div class="row"><${Field} label="Embedding model" ...${bind('model')} options=${options} help="Another one rebuilds the index in the background." />
      <${Field} label="Words of a chunk" min="50" max="1000" ...${edit.number('size', 'chunking.size')} required /><${Field} label="Shared words" min="0" ...${edit.number('overlap', 'chunking.overlap')} required />
      <${Language} ...${bind('language')} required /></div>
    <${Choices} label="Groups" of=${groups} ...${bind('group_ids')} help=${say('group_ids')} none=${may('admin') ? undefined : 'Choosing groups needs level admin.'} />
  </${EditForm}></${Needs}></${Card}>`
}

/** The search that agents use, with its score of each hit. @param {{bases?: string[]}} p */
export function Search({ bases }) {
  const { draft, bind } = useDraft({ query: '', mode: 'hybrid' })
  const names = useBases()
  const [found, setFound] = useState(/** @type {any} */ (null))
  const act = useAct(async () => setFound(await post('/search', { query: draft.query, mode: draft.mode, ...(bases ? { knowledge_base_ids: bases } : {}) })))
  return html`<${Form} act=${act} submit="Search" class="inline" label="Search">
      <${Field} label="Search for" ...${bind('query')} error=${act.error} required />
      <${Field} label="Mode" ...${bind('mode')} options=${[['hybrid', 'hybrid'], ['semantic', 'semantic'], ['keyword', 'keyword']]} /></${Form}>
    ${found && html`<div role="status"><p class="small">${count(found.hits.length, 'hit')} in ${found.took_ms} ms.${found.degraded ? ` Left out because it did not respond: ${[found.degraded].flat().join(', ')}.` : ''}</p></div>
      ${found.hits.length === 0 && html`<${Empty}>Nothing was found.</${Empty}>`}
      ${found.hits.map((/** @type {any} */ h) => html`<article class="hit" aria-label="Hit in ${h.title}">
        <p><a href=${to(['knowledge', h.knowledge_base_id, h.document_id], { from: h.chunk.start, to: h.chunk.end })}>${h.title}</a> <span class="small">${names.of(h.knowledge_base_id)}${h.chunk.page_from ? `, page ${h.chunk.page_from}` : ''}</span></p>
        ${h.context && html`<p class="small prose pre">${h.context}</p>`}
        <p class="small">score <strong>${h.score.toFixed(3)}</strong>${h.scores ? html` (keyword ${(h.scores.keyword ?? 0).toFixed(3)}, semantic ${(h.scores.semantic ?? 0).toFixed(3)})` : ''}</p>
        <p class="prose">${highlighted(h.text, h.highlights ?? [])}</p></article>`)}`}`
}

/** A text with the places marked that were meant. Places count characters, not code units. @param {string} text @param {number[][]} places */
function highlighted(text, places) {
  const all = characters(text)
  const out = []
  let at = 0
  for (const [from, end] of places) {
    if (from < at) continue
    out.push(all.slice(at, from), html`<mark>${all.slice(from, end)}</mark>`)
    at = end
  }
  return [...out, all.slice(at)]
}

/** A text whose slices count characters. @param {string} text @returns {{length: number, slice: (from: number, to?: number) => string}} */
function characters(text) {
  if (!/[\ud800-\udfff]/.test(text)) return { length: text.length, slice: (a, b) => text.slice(a, b) }
  const list = Array.from(text)
  return { length: list.length, slice: (a, b) => list.slice(a, b).join('') }
}

/** @param {{base: string, id: string}} p */
function Document({ base, id }) {
  const path = `/knowledge-bases/${base}/documents/${id}`
  const bases = useBases()
  const document = useLive(path)
  const d = document.data
  const [replacing, setReplacing] = useState(false)
  const drop = () => ask({
    title: `Delete ${d.title}?`, text: html`<p>This deletes the document <strong>${d.title}</strong>. Searches and citations no longer show it.</p>`,
    act: async () => { await remove(path); go(['knowledge', base]) },
  })
  return html`<${Page} title=${d?.title ?? id} back=${[bases.of(base) || 'Knowledge base', to(['knowledge', base])]} actions=${d && html`
      <${Act} label="Download" act=${() => download(`${path}/content`, d.source.name || d.title)} />
      ${may('manage') && html`<${Again} of=${d} /><button type="button" class="secondary" onClick=${() => setReplacing(true)}>Replace content</button><${EditButton} /><button type="button" class="secondary" onClick=${drop}>Delete</button>`}`}>
    <${Await} of=${document}>${() => html`
      <${Card}><${Facts} rows=${[['Id', html`<${Id} id=${id} />`], ['Status', html`<${Progress} of=${d} />`], ['From', d.source.url ? html`<a href=${d.source.url} rel="noopener noreferrer" target="_blank">${d.source.url}</a>` : d.source.name || d.source.kind],
        ['Kind', d.content_type], ['Size', bytes(d.size)], d.page_count && ['Pages', number(d.page_count)], ['Chunks', number(d.chunk_count)], ['Language', languageText(d.language)],
        ['Attempts', number(d.attempts)], ['Version', number(d.version)], ['Added', html`<${Time} at=${d.created_at} />`], ['Ready', html`<${Time} at=${d.ready_at} />`],
        d.sha256 && ['SHA-256', html`<code>${d.sha256.slice(0, 16)}…</code><${Copy} text=${d.sha256} label="Copy SHA-256" />`]]} />
        <${Json} value=${d.metadata} label="Metadata" /></${Card}>
      ${d.version > 0 && html`<${Extracted} path=${path} version=${d.version} /><${Chunks} path=${path} key=${d.version} />`}
      <${EditDocument} of=${document} path=${path} />`}</${Await}>
    ${replacing && d && html`<${Replace} of=${d} path=${path} onClose=${() => setReplacing(false)} />`}</${Page}>`
}

const around = 1500 // characters before and behind a place

/** The text that was read out of a document. The place of the address is marked, if it begins with the text in the address. @param {{path: string, version: number}} p */
function Extracted({ path, version }) {
  const meant = Number(place.value.query.get('from') ?? -1)
  const begins = place.value.query.get('begins') ?? ''
  const end = Number(place.value.query.get('to') ?? -1)
  const [text, setText] = useState(/** @type {string|null} */ (null))
  const [whole, setWhole] = useState(false)
  const mark = useRef(/** @type {HTMLElement|null} */ (null))
  const load = useAct(async () => setText(await (await request('GET', `${path}/text`)).text()))
  useEffect(() => { load.run() }, [version])
  useEffect(() => { mark.current?.scrollIntoView({ block: 'center' }) }, [text, meant])
  const all = useMemo(() => (text === null ? null : characters(text)), [text])
  if (all === null) return html`<${Card} title="Text">${load.error ? html`<${Problem} error=${load.error} retry=${load.run} />` : html`<p role="status" aria-busy="true">Loading…</p>`}</${Card}>`
  const changed = meant >= 0 && !stands(all, meant, begins)
  const from = changed ? -1 : meant
  const [first, last] = whole ? [0, all.length] : from >= 0 ? [Math.max(0, from - around), Math.min(all.length, end + around)] : [0, Math.min(all.length, 4 * around)]
  return html`<${Card} title="Text" actions=${(first > 0 || last < all.length) && html`<button type="button" class="secondary" onClick=${() => setWhole(true)}>Show all ${number(all.length)} characters</button>`}>
    ${changed && html`<p role="status">The document has changed since it was cited: the passage does not stand here any more.</p>`}
    <div class="passage" tabindex="0" role="region" aria-label="Text">${first > 0 && '…'}${from >= 0 && from < all.length
      ? html`${all.slice(first, from)}<mark ref=${mark}>${all.slice(from, end)}</mark>${all.slice(end, last)}` : all.slice(first, last)}${last < all.length && '…'}</div></${Card}>`
}

/** @param {{path: string}} p */
function Chunks({ path }) {
  const list = useList(`${path}/chunks`, 'chunks', 'index')
  const columns = [
    column('#', (c) => c.index, 'num'),
    column('Heading', (c) => c.heading ?? '', 'narrow'),
    column('Text', (c) => html`<a href=${`${location.hash.split('?')[0]}?from=${c.start}&to=${c.end}`}>${c.text.slice(0, 160)}</a>`),
    column('Page', (c) => c.page_from ?? '', 'num narrow'),
  ]
  return html`<${Card} title="Chunks"><${List} of=${list} columns=${columns} label="Chunks" id="index" empty="The document has no chunks." /></${Card}>`
}

/** @param {{of: any, path: string}} p */
function EditDocument({ of, path }) {
  const groups = useGroups()
  const edit = useEdit(of, path, (d) => ({ title: d.title, language: d.language ?? 'auto', metadata: d.metadata, group_ids: d.group_ids ?? [] }), (changed) => ('metadata' in changed ? { ...changed, metadata: changed.metadata ?? {} } : changed))
  return html`<${Card} title="Edit"><${Needs} level="manage" to="Editing a document"><${EditForm} edit=${edit}>
    <div class="row"><${Field} label="Title" ...${edit.bind('title')} required /><${Language} ...${edit.bind('language')} required /></div>
    <${Further} bind=${edit.bind} groups=${groups} />
  </${EditForm}></${Needs}></${Card}>`
}
