// Runs: the list with its filters, one run with its steps in time, and the actions on one run or on many.
import { useEffect, useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { Failure, Once, post, remove } from '../api.js'
import { often, slowly, useAll, useLive } from '../live.js'
import { count, duration, number, revealed } from '../format.js'
import { may } from '../session.js'
import { place, setQuery, to } from '../router.js'
import { ask, Dialog } from '../ui/dialog.js'
import { Decisions, useDecidable } from '../ui/decisions.js'
import { Files } from '../ui/files.js'
import { Choice, Field, Form, Late, local, useAct, useDraft } from '../ui/form.js'
import { column, List, useList } from '../ui/list.js'
import { Answered, Text } from '../ui/answer.js'
import { RunName } from '../ui/opening.js'
import { useAgents, useKeys, useUsers } from '../ui/names.js'
import { Await, Card, Empty, Facts, Id, Json, Needs, Page, Plain, Relative, Status, Time } from '../ui/parts.js'
import { pausesOf, Waterfall } from '../ui/waterfall.js'
import { Deliveries } from './webhooks.js'

export function Runs() {
  const { id } = place.value
  return id ? html`<${Run} id=${id} key=${id} />` : html`<${RunList} />`
}

export const statuses = ['queued', 'running', 'awaiting_input', 'completed', 'failed', 'cancelled', 'timed_out']
const choices = [['', 'any'], ['queued,running,awaiting_input', 'active'], ['failed,timed_out', 'failed or timed out'], ...statuses.map((s) => [s, s.replace('_', ' ')])]

function RunList() {
  const query = Object.fromEntries(place.value.query)
  const agents = useAgents()
  const users = useUsers()
  const keys = useKeys()
  const list = useList('/runs', 'runs', 'run_id', query)
  const [stopping, setStopping] = useState(false)
  const set = (/** @type {string} */ name) => (/** @type {string} */ v) => setQuery({ ...query, [name]: v })
  const time = (/** @type {string} */ name) => (/** @type {string} */ v) => set(name)(v && new Date(v).toISOString())
  const columns = [
    column('Run', (r) => html`<${RunName} of=${r} agent=${agents.of(r.agent_id) || r.agent_id} />`),
    column('Status', (r) => html`<${Status} of=${r.status} />`),
    column('Chat', (r) => html`<a href=${to(['chat', r.chat_id])}>${r.chat_id}</a>`, 'narrow short'),
    ...(may('admin') ? [column('User', (r) => users.of(r.user_id) || r.user_id, 'narrow')] : []),
    column('Created', (r) => html`<${Time} at=${r.created_at} />`),
    column('Active', (r) => duration(r.active_ms), 'num narrow'),
    column('Tokens', (r) => number(r.usage.input_tokens + r.usage.output_tokens), 'num narrow'),
  ]
  const known = query.status && !choices.some(([v]) => v === query.status) ? [[query.status, query.status.replaceAll('_', ' ')]] : []
  return html`<${Page} title="Runs" actions=${may('run') ? html`<button type="button" class="secondary" title="Stop all runs that match a filter" onClick=${() => setStopping(true)}>Stop</button>` : html`<span class="small">Stopping runs needs level run.</span>`}>
    <search class="filters" aria-label="Filter runs">
      <${Field} label="Status" value=${query.status} options=${[...choices, ...known]} onChange=${set('status')} />
      <${Choice} label="Agent" value=${query.agent_id} of=${agents} first=${[['', 'any']]} onChange=${set('agent_id')} />
      <${Late} label="Chat" value=${query.chat_id} onChange=${set('chat_id')} />
      ${may('admin') && html`<${Choice} label="User" value=${query.user_id} of=${users} first=${[['', 'any']]} onChange=${set('user_id')} />`}
      ${may('admin') && html`<${Choice} label="API key" value=${query.api_key_id} of=${keys} first=${[['', 'any']]} onChange=${set('api_key_id')} />`}
      <${Field} label="Created after" type="datetime-local" value=${local(query.created_after)} onChange=${time('created_after')} />
      <${Field} label="Created before" type="datetime-local" value=${local(query.created_before)} onChange=${time('created_before')} />
      ${Object.keys(query).length > 0 && html`<button type="button" class="link" onClick=${() => setQuery({})}>Clear filters</button>`}
    </search>
    <${List} of=${list} columns=${columns} label="Runs" id="run_id" href=${(/** @type {any} */ r) => to(['runs', r.run_id])}
      empty=${Object.keys(query).length > 0 ? 'No run matches these filters.' : html`There are no runs yet. <a href=${to(['chat'])}>Chat</a> starts one.`} />
    ${stopping && html`<${StopMany} agents=${agents} users=${users} query=${query} onClose=${() => setStopping(false)} />`}
  </${Page}>`
}

/** Stops all that fits a filter, after saying how many that are. @param {{agents: any, users: any, query: any, onClose: () => void}} p */
function StopMany({ agents, users, query, onClose }) {
  const { draft, bind } = useDraft(/** @type {any} */ ({ agent_id: query.agent_id ?? '', chat_id: query.chat_id ?? '', user_id: query.user_id ?? '', status: '' }))
  const [matched, setMatched] = useState(/** @type {number|null} */ (null))
  const [stopped, setStopped] = useState(/** @type {number|null} */ (null))
  const filter = Object.fromEntries(Object.entries(draft).filter(([, v]) => v !== ''))
  const act = useAct(async () => {
    try {
      const r = await post('/runs/cancel', { filter, confirm_count: matched ?? 0 })
      setStopped(r.matched)
    } catch (e) {
      if (!(e instanceof Failure) || e.code !== 'count_mismatch') throw e
      setMatched(e.body.matched)
    }
  })
  const change = (/** @type {string} */ name) => (/** @type {string} */ v) => { setMatched(null); setStopped(null); bind(name).onChange(v) }
  return html`<${Dialog} title="Stop runs" onClose=${onClose}>
    ${stopped !== null ? html`<p role="status">${stopped === 0 ? 'No active run matches.' : `${count(stopped, 'run')} stopped.`}</p>
      <div class="buttons"><button type="button" onClick=${onClose}>Done</button></div>` : html`
    <${Form} act=${act} submit=${matched === null ? 'Count' : 'Confirm'} more=${html`<button type="button" class="secondary" onClick=${onClose}>Keep</button>`}>
      <div class="row">
        <${Choice} label="Agent" value=${draft.agent_id} of=${agents} first=${[['', 'any']]} onChange=${change('agent_id')} />
        <${Field} label="Status" value=${draft.status} options=${[['', 'any active'], ['queued', 'queued'], ['running', 'running'], ['awaiting_input', 'awaiting input']]} onChange=${change('status')} />
        <${Field} label="Chat" value=${draft.chat_id} onChange=${change('chat_id')} />
        ${may('admin') && html`<${Choice} label="User" value=${draft.user_id} of=${users} first=${[['', 'any']]} onChange=${change('user_id')} />`}
      </div>
      ${matched !== null && html`<p class="notice" role="status">This stops <strong>${count(matched, 'active run')}</strong>. Completed steps stay; further steps do not run.</p>`}
    </${Form}>`}
  </${Dialog}>`
}

/** @param {{id: string}} p */
function Run({ id }) {
  const run = useLive(`/runs/${id}`, {}, paced)
  const r = run.data
  return html`<${Page} title=${id} back=${['Runs', to(['runs'])]} actions=${r?.chat_id && html`<${Verbs} of=${r} />`}>
    <${Await} of=${run}>${() => (r.chat_id ? html`<${Details} of=${r} />` : html`<${ToDecide} of=${r} />`)}</${Await}></${Page}>`
}

/** The run as an approver sees it that may not use the agent. @param {{of: any}} p */
function ToDecide({ of: r }) {
  return html`<${Card}><${Facts} rows=${[['Status', html`<${Status} of=${r.status} />`], ['Agent', r.agent_name], ['For', r.asked_by.name || r.asked_by.user_id]]} />
      <${Plain} text=${revealed(r.message)} code="Message" /></${Card}>
    ${r.interrupts.length > 0 && html`<${Card} title="Waits for a human"><${Decisions} runId=${r.run_id} interrupts=${r.interrupts} /></${Card}>`}`
}

const paced = (/** @type {any} */ r) => (r && !active(r) ? slowly : often)

const active = (/** @type {any} */ r) => ['queued', 'running', 'awaiting_input'].includes(r.status)

/** @param {{of: any}} p */
function Verbs({ of }) {
  const interrupts = useDecidable(of.chat_id, active(of) ? of.interrupts ?? [] : [])
  if (!active(of)) return html`<a href=${to(['chat', of.chat_id])}>Go on in its chat</a>`
  if (!may('run')) return html`<span class="small">Deciding and cancelling need level run.</span>`
  const cancel = () => ask({
    title: 'Cancel this run?', reason: 'Reason',
    text: html`<p>The run <code>${of.run_id}</code> ends. Its completed steps stay; messages that wait for it start.</p>`,
    act: (reason) => post(`/runs/${of.run_id}/cancel`, { reason: reason || undefined }),
  })
  const others = interrupts.some((i) => i.decidable === false)
  const resume = () => {
    if (interrupts.some((i) => i.kind === 'clarification')) { // it takes an answer
      /** @type {HTMLElement|null} */ (document.querySelector('.decision.clarification input'))?.focus()
      return
    }
    ask({
      title: 'Resume this run?',
      text: html`<p>This approves ${count(interrupts.length, 'call')}: ${interrupts.map((i) => html`<code>${i.tool?.name}</code> `)}</p>`,
      act: () => post(`/runs/${of.run_id}/resume`, { decisions: interrupts.map((i) => ({ interrupt_id: i.id, decision: 'approve' })) }),
    })
  }
  return html`
    ${of.status === 'awaiting_input' && html`<button type="button" disabled=${others} title=${others ? 'Others decide this' : undefined} onClick=${resume}>Resume</button>`}
    <button type="button" class="secondary" disabled=${of.cancel_requested} onClick=${cancel}>Cancel run</button>`
}

/** @param {{of: any}} p */
function Details({ of: r }) {
  const agents = useAgents()
  const users = useUsers()
  const keys = useKeys()
  const every = active(r) ? often : 0 // what has ended does not change
  const steps = useAll(`/runs/${r.run_id}/steps`, 'steps', 'index', {}, every)
  const waited = useAll(`/runs/${r.run_id}/interrupts`, 'interrupts', 'id', {}, every)
  const messages = useLive(`/runs/${r.run_id}/messages`, {}, 0)
  const said = (messages.data?.messages ?? []).find((/** @type {any} */ m) => m.role === 'user')
  const files = [...(said?.files ?? []), ...(r.result?.files ?? [])]
  const pauses = pausesOf(r, waited.data ?? [])
  useEffect(() => { steps.renew(); waited.renew(); messages.renew() }, [r.status])
  return html`
    <${Card}><${Facts} rows=${[
      ['Status', html`<${Status} of=${r.status} />${r.cancel_requested && active(r) && ' cancel requested'}`],
      ['Agent', html`<${Id} id=${r.agent_id} name=${agents.of(r.agent_id)} href=${to(['agents', r.agent_id])} /> version ${r.agent_version}`],
      ['Chat', html`<${Id} id=${r.chat_id} href=${to(['chat', r.chat_id])} /> turn ${r.turn}`],
      ['User', html`<${Id} id=${r.user_id} name=${users.of(r.user_id)} href=${to(['users', r.user_id])} />`],
      ['API key', html`<${Id} id=${r.api_key_id} name=${keys.of(r.api_key_id)} href=${to(['api-keys', r.api_key_id])} />`],
      ['Created', html`<${Time} at=${r.created_at} />`], ['Started', html`<${Time} at=${r.started_at} />`],
      r.finished_at && ['Finished', html`<${Time} at=${r.finished_at} />`],
      r.expires_at && ['Cancelled without a decision', html`<${Relative} at=${r.expires_at} />`],
      ['Active time', duration(r.active_ms)], pauses.length > 0 && ['Waited for a human', duration(pauses.reduce((n, p) => n + p.to - p.from, 0))], ['Tokens', `${number(r.usage.input_tokens)} in, ${number(r.usage.output_tokens)} out`],
      ['Calls', `${count(r.usage.model_calls, 'model call')}, ${count(r.usage.tool_calls, 'tool call')}`],
      ['Attempt', number(r.attempt)], r.decided_by && ['Decided by', users.of(r.decided_by) || r.decided_by], r.cancel_reason && ['Reason for the cancel', r.cancel_reason],
      ...Object.entries(r.metadata ?? {}).map(([k, v]) => /** @type {[string, any]} */ ([k, v])),
    ]} /></${Card}>
    ${r.error && html`<div class="problem"><p><strong>The run failed:</strong> ${r.error}</p></div>`}
    ${r.status === 'awaiting_input' && html`<${Card} title=${`Waits for a human${r.asked_by?.name ? `, for ${r.asked_by.name}` : ''}`}><${Decisions} runId=${r.run_id} chatId=${r.chat_id} interrupts=${r.interrupts} expires=${r.expires_at} /></${Card}>`}
    <${Card} title="Steps"><${Await} of=${steps}>${() => html`<${Waterfall} run=${r} steps=${steps.data} interrupts=${waited.data ?? []} />`}</${Await}></${Card}>
    <${Card} title="Input">${said ? html`<${Plain} text=${said.content} />` : messages.data ? html`<${Empty}>The message no longer exists.</${Empty}>` : html`<${Await} of=${messages} />`}</${Card}>
    <${Card} title="Result">${r.result ? html`<${Answered} result=${r.result} />` : r.partial ? html`<p class="small">The run was cancelled. Its text so far:</p><${Text} text=${r.partial.answer} />` : html`<${Empty}>${active(r) ? 'The run has not ended yet.' : 'The run has no result.'}</${Empty}>`}</${Card}>
    ${files.length > 0 && html`<${Card} title="Files"><${Files} of=${files} /></${Card}>`}
    <${Parked} of=${r} />
    <${Card} title="Webhook deliveries"><${Deliveries} query=${{ run_id: r.run_id }} empty="There are no deliveries: the run has no callback_url." /></${Card}>
    <${Json} value=${r} />`
}

/** @param {{of: any}} p */
function Parked({ of }) {
  const parked = of.parked ?? []
  const [text, setText] = useState('')
  const [once] = useState(() => new Once())
  const act = useAct(async () => {
    await post(`/runs/${of.run_id}/followups`, { message: text, idempotency_key: once.key(text) })
    once.done()
    setText((now) => (now === text ? '' : now))
  })
  const withdraw = (/** @type {any} */ p) => ask({
    title: 'Withdraw this message?', text: html`<p>This withdraws the message “${p.message}”: it starts no run.</p>`,
    act: () => remove(`/runs/${of.run_id}/parked/${p.parked_id}`),
  })
  if (parked.length === 0 && !active(of)) return null
  return html`<${Card} title="Messages that wait for this run">
    ${parked.length === 0 ? html`<p class="none">None.</p>` : html`<ul>${parked.map((/** @type {any} */ p) => html`<li key=${p.parked_id}>${p.message}
      ${p.run_id ? html` · <a href=${to(['runs', p.run_id])}>its run</a>` : may('run') && html` <button type="button" class="link" onClick=${() => withdraw(p)}>Withdraw</button>`}</li>`)}</ul>`}
    ${active(of) && html`<${Needs} level="run" to="Following up"><${Form} act=${act} submit="Follow up" class="inline"><${Field} label="Message" value=${text} onChange=${setText} required /></${Form}></${Needs}>`}
  </${Card}>`
}
