// Webhooks: every try of every delivery, trying a receiver, and the secret that signs.
import { useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { post } from '../api.js'
import { duration, words } from '../format.js'
import { often, slowly, useLive } from '../live.js'
import { may } from '../session.js'
import { place, setQuery, to } from '../router.js'
import { ask, Dialog } from '../ui/dialog.js'
import { Act, Field, Form, Late, useAct } from '../ui/form.js'
import { column, List, useList } from '../ui/list.js'
import { Await, Card, Copy, Empty, Facts, Id, Json, Needs, Page, Relative, Status, Time } from '../ui/parts.js'

export function Webhooks() {
  const { id } = place.value
  return id ? html`<${Delivery} id=${id} key=${id} />` : html`<${All} />`
}

function All() {
  const query = Object.fromEntries(place.value.query)
  const set = (/** @type {string} */ name) => (/** @type {string} */ v) => setQuery({ ...query, [name]: v })
  return html`<${Page} title="Webhooks">
    <div class="grid-2"><${Card} title="Try a receiver"><${Needs} level="run" to="Sending a test"><${Test} /></${Needs}></${Card}>
      <${Card} title="Secret"><${Needs} level="admin" to="Rotating the secret"><${Secret} /></${Needs}></${Card}></div>
    <${Card} title="Deliveries">
      <search class="filters" aria-label="Filter deliveries"><${Field} label="State" value=${query.state} onChange=${set('state')} options=${[['', 'any'], ['pending', 'pending'], ['delivered', 'delivered'], ['failed', 'failed']]} /><${Late} label="Run" value=${query.run_id} onChange=${set('run_id')} /></search>
      <${Deliveries} query=${query} empty=${Object.keys(query).length > 0 ? 'No delivery matches.' : 'There are no deliveries yet. Send a message with a callback_url.'} /></${Card}>
    <${Card} title="How to verify a signature"><${Verify} /></${Card}></${Page}>`
}

/** @param {{query: Record<string, any>, empty: any}} p */
export function Deliveries({ query, empty }) {
  const list = useList('/webhooks/deliveries', 'deliveries', 'delivery_id', query)
  const columns = [
    column('Event', (r) => html`<a href=${to(['webhooks', r.delivery_id])}>${eventOf(r)}</a> <span class="small">${words(r.status_of_run)}</span>`),
    column('State', (r) => html`<${Status} of=${r.state} />`),
    column('Tries', (r) => r.attempts.length, 'num narrow'),
    column('Last', (r) => html`<span title=${lastTry(r)}>${lastTry(r)}</span>`, 'narrow'),
    ...(query.run_id ? [] : [column('Run', (/** @type {any} */ r) => html`<${Id} id=${r.run_id} href=${to(['runs', r.run_id])} />`, 'narrow brief')]),
    column('To', (r) => html`<span title=${r.callback_url}>${r.callback_url}</span>`, 'narrow short'),
    column('', (r) => html`<${Redeliver} of=${r} />`),
  ]
  return html`<${List} of=${list} columns=${columns} label="Deliveries" id="delivery_id" href=${(/** @type {any} */ r) => to(['webhooks', r.delivery_id])} empty=${empty} />`
}

const eventOf = (/** @type {any} */ d) => d.event.replace('agent_run.', '')

/** @param {any} d */
function lastTry(d) {
  const last = d.attempts[d.attempts.length - 1]
  return last ? `${last.status ?? last.error ?? ''} in ${duration(last.latency_ms)}` : '–'
}

/** @param {{of: any}} p */
function Redeliver({ of: d }) {
  if (!may('run')) return null
  const again = (/** @type {any} */ body) => post(`/webhooks/deliveries/${d.delivery_id}/redeliver`, body)
  if (d.state !== 'delivered') return html`<${Act} label="Redeliver" act=${() => again(d.state === 'failed' ? {} : { force: true })} />`
  return html`<button type="button" class="secondary" onClick=${() => ask({
    title: 'Send this delivery again?', text: html`<p>The receiver at <code>${d.callback_url}</code> has already received this delivery. It gets it again, with the same <code>webhook-id</code>.</p>`,
    act: () => again({ force: true }),
  })}>Redeliver</button>`
}

/** @param {{id: string}} p */
function Delivery({ id }) {
  const delivery = useLive(`/webhooks/deliveries/${encodeURIComponent(id)}`, {}, pending)
  const d = delivery.data
  return html`<${Page} title=${id} back=${['Webhooks', to(['webhooks'])]} actions=${d && html`<${Redeliver} of=${d} />`}>
    <${Await} of=${delivery}>${() => html`
      <${Card}><${Facts} rows=${[['State', html`<${Status} of=${d.state} />`], ['Event', eventOf(d)], ['Run', html`<${Id} id=${d.run_id} href=${to(['runs', d.run_id])} /> <span class="small">${words(d.status_of_run)}</span>`],
        ['To', d.callback_url], d.next_attempt_at && ['Next try', html`<${Relative} at=${d.next_attempt_at} />`]]} /></${Card}>
      <${Card} title="Tries">${d.attempts.length === 0 ? html`<${Empty}>There are no attempts yet.</${Empty}>` : html`<ol>${d.attempts.map((/** @type {any} */ a) => html`<li><${Attempt} of=${a} /></li>`)}</ol>`}</${Card}>
      <${Json} value=${d} />`}</${Await}></${Page}>`
}

/**
 * The interval at which a delivery is requested. It is short while an attempt is under way or due, also after a user
 * has requested another attempt.
 */
const pending = (/** @type {any} */ d) => (d && d.state !== 'pending' && !d.next_attempt_at ? slowly : often)

/** @param {{of: any}} p */
function Attempt({ of: a }) {
  return html`<p><${Time} at=${a.at} /> · ${a.status ? `status ${a.status}` : 'no answer'} · ${duration(a.latency_ms)}${a.error ? html` · <span class="wrong">${a.error}</span>` : ''}</p>
    ${a.response_excerpt && html`<pre tabindex="0" role="region" aria-label="Response">${a.response_excerpt}</pre>`}`
}

function Test() {
  const [url, setUrl] = useState('')
  const [result, setResult] = useState(/** @type {any} */ (null))
  const act = useAct(async () => setResult(await post('/webhooks/test', { callback_url: url })))
  return html`<${Form} act=${act} submit="Send test" label="Try a receiver"><${Field} label="Callback URL" type="url" name="callback_url" value=${url} onChange=${setUrl} error=${act.error} required /></${Form}>
    ${result && html`<div role="status"><${Attempt} of=${result} /></div>`}`
}

/** Rotates the secret; its text is shown once. */
export function Secret() {
  const [overlap, setOverlap] = useState('86400')
  const [made, setMade] = useState(/** @type {any} */ (null))
  const rotate = async () => setMade(await post('/organization/webhook-secret/rotate', { overlap_seconds: Number(overlap) }))
  const act = useAct(async () => {
    if (overlap !== '0') return rotate()
    ask({
      title: 'Replace the secret immediately?', act: rotate,
      text: html`<p>The present secret stops signing immediately. Receivers refuse every webhook until they have the new secret.</p>`,
    })
  })
  return html`<${Form} act=${act} submit="Rotate secret"><${Field} label="Both stay valid" value=${overlap} onChange=${setOverlap} options=${[['86400', 'for a day'], ['3600', 'for an hour'], ['604800', 'for a week'], ['0', 'not at all: only the new one']]} /></${Form}>
    ${made && html`<${Dialog} title="The new secret">
      <p class="notice"><strong>You can see this only now.</strong> Receivers check signatures with it.</p>
      <p class="secret"><code>${made.secret}</code><${Copy} text=${made.secret} label="Copy secret" shown="Copy secret" /></p>
      ${made.previous_until && html`<p>The previous one is valid until <${Time} at=${made.previous_until} />.</p>`}
      <div class="buttons"><button type="button" class="secondary" onClick=${() => setMade(null)}>Done</button></div></${Dialog}>`}`
}

const sample = `import hashlib, hmac

def is_ours(secret: str, raw_body: bytes, header: str) -> bool:
    # header: x-agent-signature
    ours = hmac.new(secret.encode(), raw_body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(ours, header.removeprefix("sha256="))
`

function Verify() {
  return html`<p>Each push carries <code>x-agent-signature: sha256=…</code>, the HMAC-SHA256 of the raw body under the secret, and the three headers of
    Standard Webhooks (<code>webhook-id</code>, <code>webhook-timestamp</code>, <code>webhook-signature</code>), which its ready-made libraries check.
    Compute it over the raw bytes, before you parse the JSON, and compare in constant time. During a rotation's overlap, <code>x-agent-signature</code> is still
    that of the previous secret, and <code>webhook-signature</code> has both.</p><${Copy} text=${sample} label="Copy sample" shown="Copy sample" /><pre tabindex="0" role="region" aria-label="Sample in Python">${sample}</pre>`
}
