// Everything that waits for a human, oldest first, decided in place.
import { useEffect } from '../vendor/hooks.js'
import { cut, revealed } from '../format.js'
import { html } from '../html.js'
import { to } from '../router.js'
import { may } from '../session.js'
import { Decisions } from '../ui/decisions.js'
import { useList } from '../ui/list.js'
import { useAgents } from '../ui/names.js'
import { Beginning } from '../ui/opening.js'
import { Await, Empty, Loading, Page, Time } from '../ui/parts.js'

export function Inbox() {
  const inbox = useList('/interrupts', 'interrupts', 'id')
  const agents = useAgents()
  const runs = byRun(inbox.rows ?? [])
  const whole = inbox.more ? runs.slice(0, -1) : runs // of the last there may be more, and they are decided together
  useEffect(() => { if (inbox.more && whole.length === 0) inbox.next() })
  return html`<${Page} title="Inbox">${!may('read') ? html`<${Loading} />` : html`<${Await} of=${{ ...inbox, data: inbox.rows }}>${() => html`
      ${runs.length === 0 && html`<${Empty}>No run waits for a human. Questions and approvals of runs appear here.</${Empty}>`}
      ${whole.map((list) => html`<section class="card" key=${list[0].run_id} aria-label="Run ${list[0].run_id}">
        <header>${list[0].chat_id ? html`<h2><a href=${to(['runs', list[0].run_id])}>${agents.of(list[0].agent_id) || 'Agent'}</a></h2> <${Beginning} id=${list[0].run_id} />`
          : html`<h2>${list[0].agent_name || 'Agent'}</h2> <span class="beginning">“${revealed(cut(list[0].message ?? '', 100))}”</span>`}
          <span class="small">asked <${Time} at=${list[0].created_at} />${list[0].asked_by.name && ` for ${list[0].asked_by.name}`}${list[0].chat_id && html` · <a href=${to(['chat', list[0].chat_id])}>its chat</a>`}</span></header>
        <${Decisions} key=${list.map((i) => i.id).join()} runId=${list[0].run_id} chatId=${list[0].chat_id} interrupts=${list} expires=${list[0].expires_at} />
      </section>`)}
      ${inbox.more && html`<button type="button" class="link" aria-busy=${inbox.loading ? 'true' : undefined} onClick=${inbox.next}>Load more</button>`}`}</${Await}>`}</${Page}>`
}

/** Interrupts of a run are decided together. @param {any[]} interrupts @returns {any[][]} */
function byRun(interrupts) {
  /** @type {Map<string, any[]>} */
  const runs = new Map()
  for (const i of interrupts) runs.set(i.run_id, [...(runs.get(i.run_id) ?? []), i])
  return [...runs.values()]
}
