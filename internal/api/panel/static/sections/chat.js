// A chat with an agent: its answer as it comes, its calls meanwhile, its questions, and the earlier messages.
import { useEffect, useMemo, useRef, useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { remove } from '../api.js'
import { seldom, useLive } from '../live.js'
import { may, me } from '../session.js'
import { go, moves, place, rename, to } from '../router.js'
import { conversation } from '../ui/conversation.js'
import { Decisions } from '../ui/decisions.js'
import { ask } from '../ui/dialog.js'
import { Files } from '../ui/files.js'
import { Act, Choice, Field, useAct } from '../ui/form.js'
import { useList } from '../ui/list.js'
import { useAgents } from '../ui/names.js'
import { Empty, Loading, Needs, Page, Part, Plain, Problem, Status, Time } from '../ui/parts.js'
import { Text } from '../ui/answer.js'

export function Chat() {
  const chatId = place.value.id
  return html`<${Page} title="Chat" actions=${chatId && html`<a href=${to(['chat'])} role="button">New chat</a>`}>
    <div class="chat"><${History} current=${chatId} /><${Talk} chatId=${chatId} key=${moves.value} /></div></${Page}>`
}

/** @param {{current: string}} p */
function History({ current }) {
  const [mine, setMine] = useState(may('admin') ? '' : me.value?.user.user_id ?? '')
  const chats = useList('/chats', 'chats', 'chat_id', { user_id: mine })
  return html`<aside aria-label="Chats">
    <h2>Chats</h2>
    <${Field} label="Started by" value=${mine} onChange=${setMine} options=${[['', 'everybody'], [me.value?.user.user_id ?? '-', 'me']]} />
    ${chats.rows === null ? (chats.error ? html`<${Problem} error=${chats.error} retry=${chats.renew} />` : html`<${Loading} />`)
      : chats.rows.length === 0 ? html`<p class="none">There are none yet.</p>`
      : html`<ul tabindex="0" aria-label="Chats">${chats.rows.map((c) => html`<li key=${c.chat_id}><a href=${to(['chat', c.chat_id])} aria-current=${c.chat_id === current ? 'page' : undefined}>${c.title || c.chat_id}</a></li>`)}</ul>`}
    ${chats.more && html`<button type="button" class="link" onClick=${chats.next}>Load more</button>`}
  </aside>`
}

/** @param {{chatId: string}} p */
function Talk({ chatId }) {
  const c = useMemo(() => conversation(chatId), [chatId])
  const agents = useAgents()
  useEffect(() => {
    c.named = (id) => rename(['chat', id])
    c.enter()
    return () => c.leave()
  }, [c])
  useRenewal(c, chatId)
  return html`<div>
    <${Problem} error=${c.error.value} retry=${() => c.load()} />
    <${Messages} of=${c} agents=${agents} />
    <${Needs} level="run" to="Sending messages"><${Composer} of=${c} agents=${agents} /></${Needs}>
    ${chatId && may('run') && html`<p class="small"><a href=${to(['runs'], { chat_id: chatId })}>Runs of this chat</a> · <button type="button" class="link" onClick=${() => forgetChat(chatId)}>Delete</button></p>`}
  </div>`
}

/** Finds new messages of others in the chat. @param {import('../ui/conversation.js').Conversation} c @param {string} chatId */
function useRenewal(c, chatId) {
  const { data } = useLive(chatId ? `/chats/${encodeURIComponent(chatId)}` : null)
  const seen = data && `${data.turns} ${data.active_run_id} ${data.last_run_id}`
  const before = useRef(seen)
  useEffect(() => {
    if (before.current && seen && before.current !== seen && !c.following) c.load()
    before.current = seen
  }, [seen])
}

/** @param {string} chatId */
function forgetChat(chatId) {
  ask({
    title: 'Delete this chat?',
    text: html`<p>This deletes the chat <code>${chatId}</code> with its runs, messages and files, and cancels an active run.</p>`,
    act: async () => { await remove(`/chats/${encodeURIComponent(chatId)}`); go(['chat']) },
  })
}

/** @param {{of: import('../ui/conversation.js').Conversation, agents: any}} p */
function Messages({ of: c, agents }) {
  const messages = c.messages.value
  const now = c.now.value
  const end = useRef(/** @type {HTMLElement|null} */ (null))
  const length = (messages?.length ?? 0) + (now ? 1 + now.text.length : 0)
  useEffect(() => {
    const near = document.documentElement.scrollHeight - innerHeight - scrollY < 400
    if (near) end.current?.scrollIntoView({ block: 'end' })
  }, [length])
  const runId = now?.run.run_id
  const settled = useMemo(() => messages?.filter((m) => !(m.run_id === runId && m.role === 'assistant')) // drawn once, not with each word that comes
    .map((m) => html`<${Message} key=${m.run_id + m.role + m.turn} of=${m} />`), [messages, runId])
  if (messages === null) return c.error.value ? null : html`<${Loading} />`
  const unsaid = c.sent.value && !(now && messages.some((m) => m.run_id === now.run.run_id)) ? c.sent.value : null
  return html`<div class="messages" role="log" aria-label="Conversation" aria-live="off">
    ${c.earlier.value && html`<${Act} label="Earlier messages" class="link" act=${() => c.read(c.earlier.value)} />`}
    ${messages.length === 0 && !unsaid && !now && html`<${Empty}>Choose an agent and send a message.</${Empty}>`}
    ${settled}
    ${unsaid && html`<${Message} of=${{ role: 'user', content: unsaid.text, files: unsaid.files.map((name) => ({ name })) }} />`}
    ${now && html`<${Now} now=${now} agents=${agents} />`}
    ${c.failed.value && html`<div class="problem" role="alert"><p><strong>The run ${ends[c.failed.value.status]}.</strong> ${c.failed.value.error ?? c.failed.value.cancel_reason ?? ''}</p>
      <p class="small"><a href=${to(['runs', c.failed.value.run_id])}>See the run</a></p></div>`}
    <div ref=${end}></div>
  </div>`
}

/** @type {Record<string, string>} */
const ends = { failed: 'failed', timed_out: 'exceeded its time limit', cancelled: 'was cancelled' }

/** @param {{of: any}} p */
function Message({ of: m }) {
  const files = m.files ?? []
  return html`<article class="message ${m.role}" aria-label=${m.role === 'user' ? 'You said' : 'The agent said'}>
    <${Part}>${m.role === 'user' ? html`<${Plain} text=${m.content} />` : html`<${Text} text=${m.content} citations=${m.citations} />`}</${Part}>
    ${files.length > 0 && html`<${Files} of=${files} />`}
    ${m.run_id && html`<p class="small">${m.status && m.status !== 'completed' && html`<${Status} of=${m.status} /> `}<${Time} at=${m.created_at} /> · <a href=${to(['runs', m.run_id])}>run</a></p>`}
  </article>`
}

/** The run under way. @param {{now: import('../stream.js').Watched, agents: any}} p */
function Now({ now, agents }) {
  const parked = now.parked.filter((p) => !p.run_id)
  return html`<article class="message assistant" aria-label="The agent says" aria-busy=${now.status === 'running' ? 'true' : undefined}>
    <header><strong>${agents.of(now.run.agent_id) || 'Agent'}</strong><span role="status"><${Status} of=${now.status} /></span>
      ${!now.connected && html`<span class="small" role="status">The connection was lost; the run goes on. Connecting again…</span>`}</header>
    ${now.steps.length > 0 && html`<ol class="steps" aria-label="Steps">${now.steps.map((s) => html`<li key=${s.index} class="small"><${Status} of=${s.state} /> ${s.kind === 'search' ? 'search' : html`<code>${s.name}</code>`} ${s.outcome && s.outcome !== 'ok' ? s.outcome : ''}</li>`)}</ol>`}
    ${now.text && html`<${Part}><${Text} text=${now.text} citations=${now.run.result?.citations} /></${Part}>`}
    ${now.status === 'awaiting_input' && now.interrupts.length > 0 && html`<${Decisions} key=${now.interrupts.map((i) => i.id).join()} runId=${now.run.run_id} chatId=${now.run.chat_id} agentId=${now.run.agent_id} interrupts=${now.interrupts} />`}
    ${parked.length > 0 && html`<p class="small">Behind it: ${parked.map((p) => `“${p.message}”`).join(', ')}</p>`}
  </article>`
}

/** @param {{of: import('../ui/conversation.js').Conversation, agents: any}} p */
function Composer({ of: c, agents }) {
  const { text, files } = c.draft
  const [chosen, setChosen] = useState(place.value.query.get('agent') ?? '')
  const [version, setVersion] = useState(place.value.query.get('version') ?? '')
  const agentId = chosen || c.agentId.value || agents.options[0]?.[0] || ''
  const versions = useLive(may('manage') && agentId ? `/agents/${agentId}/versions` : null, { limit: 100 }, seldom)
  const now = c.now.value
  const busy = c.busy
  const question = busy && now?.status === 'awaiting_input' && now.interrupts.length === 1 && now.interrupts[0].kind === 'clarification'
  const act = useAct(async () => {
    if (text.value.trim() || files.value.length > 0) await c.send({ agentId, version, behind: busy && !question })
  })
  const keyed = (/** @type {KeyboardEvent} */ e) => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return
    e.preventDefault()
    act.run()
  }
  return html`<form class="composer ${now?.status === 'awaiting_input' ? 'still' : ''}" aria-label="New message" onSubmit=${(/** @type {Event} */ e) => { e.preventDefault(); act.run() }}>
    <${Field} label="Message" rows=${2} value=${text.value} onChange=${(/** @type {string} */ v) => { text.value = v }} onKeyDown=${keyed} help="Enter sends the message; Shift+Enter starts a new line." />
    <${Problem} error=${act.error} />
    <div class="line">
      <${Choice} label="Agent" value=${agentId} of=${agents} first=${agents.all.length ? [] : [['', agents.known ? 'no agents yet' : '…']]} onChange=${(/** @type {string} */ v) => { setChosen(v); setVersion('') }} />
      <${Field} label="Version" value=${version} onChange=${setVersion} disabled=${!may('manage')} help=${may('manage') ? undefined : 'Choosing one needs level manage.'}
        options=${[['', 'the published one'], ...(versions.data?.versions ?? []).map((/** @type {any} */ v) => [String(v.version), `version ${v.version}`])]} />
      <${FileField} files=${files} />
      <div class="buttons">
      ${busy && !question
        ? html`<button type="submit" class="secondary" aria-busy=${act.busy ? 'true' : undefined}>Queue behind</button>`
        : html`<button type="submit" aria-busy=${act.busy ? 'true' : undefined}>Send</button>`}
      ${busy && html`<${Act} label="Stop" class="danger" act=${() => c.stop()} />`}
      </div></div>
  </form>`
}

/** The files of a draft, which the field shows again when one has come back to it. @param {{files: import('../vendor/signals.js').Signal<File[]>}} p */
function FileField({ files }) {
  const input = useRef(/** @type {HTMLInputElement|null} */ (null))
  useEffect(() => {
    const list = new DataTransfer()
    for (const f of files.value) list.items.add(f)
    if (input.current) input.current.files = list.files
  }, [files.value])
  return html`<div class="field files"><label for="files">Files</label><input id="files" type="file" multiple ref=${input} onChange=${(/** @type {any} */ e) => { files.value = [...e.target.files] }} /></div>`
}
