// Interrupts that wait for a human, decided in place. A run takes all its decisions in one request, so each is kept
// until the last is made. The text typed for one stays as long as it waits. A form with a decision is hidden, and comes
// back as it was.
import { useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { post } from '../api.js'
import { useAll, useLive } from '../live.js'
import { pretty, revealed } from '../format.js'
import { Field, Form, useAct } from './form.js'
import { Loading, Needs, Part, Plain, Problem, Relative } from './parts.js'
import { SchemaForm } from './schema.js'

/**
 * Interrupts, each with whether the signed-in user may decide it. Only the inbox has that.
 * @param {string} chatId @param {any[]} interrupts @returns {any[]}
 */
export function useDecidable(chatId, interrupts) {
  const { data } = useLive(interrupts.some((i) => i.decidable === undefined) ? '/interrupts' : null, { chat_id: chatId, limit: 100 })
  return interrupts.map((i) => ({ decidable: data?.interrupts.find((/** @type {any} */ o) => o.id === i.id)?.decidable, ...i }))
}

/**
 * @param {{runId: string, chatId: string, interrupts: any[], expires?: string|null}} p
 */
export function Decisions({ runId, chatId, interrupts: waiting, expires }) {
  const interrupts = useDecidable(chatId, waiting)
  const [made, setMade] = useState(/** @type {Record<string, any>} */ ({}))
  const send = useAct(async (/** @type {Record<string, any>} */ all, /** @type {string} */ last) => {
    const decisions = interrupts.map((i) => ({ interrupt_id: i.id, ...all[i.id] }))
    try {
      await post(`/runs/${runId}/resume`, { decisions })
    } catch (e) {
      const other = ['interrupts_mismatch', 'not_awaiting_input'].includes(/** @type {any} */ (e).code) // than what was decided
      const wrong = interrupts.filter((_, n) => faultOf(e, n)).map((i) => i.id)
      setMade(other ? {} : without(all, ...(wrong.length > 0 ? wrong : [last])))
      throw e
    }
  })
  /** @param {string} id @param {any} decision */
  const decide = (id, decision) => {
    const all = decision ? { ...made, [id]: decision } : without(made, id)
    setMade(all)
    if (interrupts.every((i) => all[i.id])) send.run(all, id)
  }
  const left = interrupts.filter((i) => !made[i.id]).length
  return html`<div class="decisions">
    ${interrupts.map((i, n) => html`<${Part} key=${i.id}><${Decision} of=${i} runId=${runId} made=${made[i.id]} left=${left} busy=${send.busy} wrong=${faultOf(send.error, n)}
      decide=${(/** @type {any} */ d) => decide(i.id, d)} /></${Part}>`)}
    <${Problem} error=${send.error} />
    ${expires && html`<p class="small">Without a decision the run is cancelled <${Relative} at=${expires} />.</p>`}
  </div>`
}

/** @param {Record<string, any>} all @param {string[]} ids */
function without(all, ...ids) {
  return Object.fromEntries(Object.entries(all).filter(([id]) => !ids.includes(id)))
}

/** The fault of a decision's arguments, by the decision's place. @param {any} error @param {number} n @returns {string} */
const faultOf = (error, n) => error?.field?.(`decisions[${n}].arguments`) ?? ''

/** @type {Record<string, string>} */
const done = { approve: 'Approved', edit: 'Approved with other arguments', reject: 'Rejected', answer: 'Answered' }

/** @param {{of: any, runId: string, made: any, left: number, busy: boolean, wrong: string, decide: (d: any) => void}} p */
function Decision({ of, runId, made, left, busy, wrong, decide }) {
  const asked = of.kind === 'approval' ? 'Approval' : 'Output' // a client's function has its output from whoever answers
  return html`<section class="decision ${of.kind}" aria-label=${of.tool ? `${asked} of ${of.tool.name}` : 'Question'}>
    <p><strong>${of.prompt}</strong></p>
    ${made && html`<p role="status">${done[made.decision]}. ${busy ? 'Sending…' : left > 0 ? `It is sent when the other ${left === 1 ? 'decision is' : `${left} decisions are`} made, too.` : ''}
      ${!busy && html` <button type="button" class="link" onClick=${() => decide(null)}>Change</button>`}</p>`}
    <div hidden=${!!made}><${Needs} level="run" to="Deciding">${of.decidable === false
      ? html`<p class="small">The agent's approvers decide this; without approvers, the run's user and managers do.</p>`
      : of.kind === 'clarification' ? html`<${Answer} of=${of} decide=${decide} />` : html`<${Approval} of=${of} runId=${runId} wrong=${wrong} decide=${decide} />`}</${Needs}></div>
  </section>`
}

/** @param {{of: any, decide: (d: any) => void}} p */
function Answer({ of, decide }) {
  const [text, setText] = useState('')
  const answer = (/** @type {string} */ message) => decide({ decision: 'answer', message })
  return html`<${Form} act=${{ run: () => answer(text) }} submit="Answer">
    ${of.tool && html`<${Arguments} of=${of} />`}
    ${(of.options ?? []).length > 0 && html`<div class="buttons">${of.options.map((/** @type {string} */ o) =>
      html`<button type="button" class="secondary" onClick=${() => answer(o)}>${o}</button>`)}</div>`}
    <${Field} label=${of.tool ? 'Output' : 'Answer'} value=${text} onChange=${setText} required />
  </${Form}>`
}

/** @param {{of: any}} p */
function Arguments({ of }) {
  return html`<${Plain} text=${revealed(pretty(of.tool?.arguments))} code="Arguments" />`
}

/** @param {{of: any, runId: string, wrong: string, decide: (d: any) => void}} p */
function Approval({ of, runId, wrong, decide }) {
  const [reason, setReason] = useState('')
  const [edited, setEdited] = useState(/** @type {any} */ (null))
  const run = useLive(edited === null ? null : `/runs/${runId}`, {}, 0)
  const tools = useAll(run.data?.agent_id ? `/agents/${run.data.agent_id}/tools` : null, 'tools', 'name', { agent_version: run.data?.agent_version }, 0) // as the run has them
  const schema = tools.data?.find((/** @type {any} */ t) => t.name === of.tool?.name)?.parameters
  const shown = !run.data || run.data.agent_id // an approver need not see the agent: then the arguments are edited as JSON
  const loading = edited !== null && shown && tools.data === null && !tools.error && !run.error // the form must not change while somebody types
  const approve = () => decide(edited === null ? { decision: 'approve' } : { decision: 'edit', arguments: edited })
  return html`<${Form} act=${{ run: approve }} submit="Approve" disabled=${loading} more=${html`
      <button type="button" class="danger" onClick=${() => decide({ decision: 'reject', message: reason || undefined })}>Reject</button>
      ${edited === null
        ? html`<button type="button" class="secondary" onClick=${() => setEdited(of.tool?.arguments ?? {})}>Edit</button>`
        : html`<button type="button" class="secondary" onClick=${() => setEdited(null)}>Keep the arguments</button>`}`}>
    ${loading ? html`<${Loading} />` : edited !== null ? html`<${SchemaForm} schema=${schema} value=${edited} onChange=${setEdited} />${wrong && html`<p class="small wrong" role="alert">${wrong}</p>`}`
      : html`<${Arguments} of=${of} />`}
    <${Field} label="Reason" help="The agent gets it when you reject." value=${reason} onChange=${setReason} />
  </${Form}>`
}
