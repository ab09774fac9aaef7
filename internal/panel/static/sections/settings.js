// The organization: how much, how fast, how long kept, and what signs its pushes.
import { useState } from '../vendor/hooks.js'
import { html } from '../html.js'
import { patch } from '../api.js'
import { useLive } from '../live.js'
import { number } from '../format.js'
import { may, me } from '../session.js'
import { BudgetFields, budgetOf, budgetWords, Field, Form, numberOrNull, Parsed, useAct, useDraft } from '../ui/form.js'
import { Await, Card, Facts, Id, Needs, Page, Time } from '../ui/parts.js'
import { Secret } from './webhooks.js'

export function Settings() {
  return html`<${Page} title="Settings"><${Mine} /><${Needs} level="admin" to="Changing the organization"><${Organization} /></${Needs}></${Page}>`
}

/** What the signed-in key is, and what holds for it. */
function Mine() {
  const who = me.value
  if (!who) return null
  return html`<${Card} title="This key"><${Facts} rows=${[
    ['Name', who.api_key.name], ['Prefix', html`<code>${who.api_key.prefix}…</code>`], ['Level', who.level], ['User', who.user.email || who.user.name], ['Organization', who.organization?.name ?? 'none'],
    ['Active runs', `${number(who.activity.active_runs_of_user)} of ${number(who.limits.active_runs_of_user)}`], ['Requests a minute', number(who.limits.requests_per_minute)],
    ...(who.budgets ?? []).map((b) => /** @type {[string, any]} */ ([`Budget of ${b.kind.replace('_', ' ')}`, `${budgetWords(b)}; used ${number(b.tokens)} tokens, ${number(b.runs)} runs`])),
  ]} /></${Card}>`
}

function Organization() {
  const organization = useLive(may('admin') ? '/organization' : null)
  const o = organization.data
  const [base, setBase] = useState(/** @type {any} */ (null))
  if (!base && o) setBase({ etag: organization.etag(), of: o })
  const saved = async () => { await organization.renew(); setBase(null) }
  return html`<${Await} of=${organization}>${() => html`
    <${Card} title="Organization"><${Facts} rows=${[['Name', o.name], ['Id', html`<${Id} id=${o.organization_id} />`], ['Created', html`<${Time} at=${o.created_at} />`],
      o.ceilings && ['Ceilings', `${number(o.ceilings.caps?.user)} runs a user, ${number(o.ceilings.caps?.organization)} runs in all, ${number(o.ceilings.rate_limit?.requests_per_minute)} requests a minute`]]} /></${Card}>
    ${base && html`<${Edit} key=${base.etag} of=${base.of} etag=${base.etag} saved=${saved} />`}
    <${Card} title="Webhook secret"><p>${o.webhook_secret_configured ? 'A secret is configured: pushes are signed.' : 'No secret is configured: pushes carry no signature.'}</p><${Secret} /></${Card}>`}</${Await}>`
}

/** @param {{of: any, etag: string, saved: () => Promise<any>}} p */
function Edit({ of: o, etag, saved }) {
  const { draft, bind } = useDraft(/** @type {any} */ ({
    name: o.name, user: o.caps.user, organization: o.caps.organization, rpm: o.rate_limit.requests_per_minute, burst: o.rate_limit.burst,
    retention: o.run_retention_days, budget: o.budget, currency: o.currency ?? '', prices: o.prices ?? [], secret: '',
  }))
  const act = useAct(async () => {
    /** @type {any} */
    const body = { name: draft.name, run_retention_days: numberOrNull(draft.retention), budget: budgetOf(draft.budget) }
    const caps = changed({ user: draft.user, organization: draft.organization }, o.caps)
    const rate = changed({ requests_per_minute: draft.rpm, burst: draft.burst }, o.rate_limit)
    if (caps) body.caps = caps
    if (rate) body.rate_limit = rate
    if (pricesText(draft.prices) !== pricesText(o.prices)) body.prices = draft.prices
    if (draft.currency !== (o.currency ?? '')) body.currency = draft.currency
    if (draft.secret) body.webhook_secret = draft.secret
    await patch('/organization', body, etag)
    await saved()
  })
  const num = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ member, /** @type {string} [help] */ help = 'Empty: the default.') =>
    html`<${Field} label=${label} type="number" min="1" ...${bind(name)} name=${member} error=${act.error} help=${help} />`
  return html`<${Card} title="Edit"><${Form} act=${act} submit="Save">
    <${Field} label="Name" ...${bind('name')} error=${act.error} required />
    <div class="row">${num('user', 'Active runs of a user', 'caps.user')}${num('organization', 'Active runs in all', 'caps.organization')}${num('rpm', 'Requests a minute', 'rate_limit.requests_per_minute')}${num('burst', 'Requests at once', 'rate_limit.burst')}
    ${num('retention', 'Retention (days)', 'run_retention_days', 'Of ended runs. Empty: for ever.')}</div>
    <${BudgetFields} value=${draft.budget} onChange=${bind('budget').onChange} error=${act.error} />
    <div class="row"><${Parsed} label="Prices" rows=${4} ...${bind('prices')} error=${act.error} read=${pricesOf} write=${pricesText} help="A model a line: provider/name, then what a million input and output tokens cost. None: no costs are shown." />
      <${Field} label="Currency" ...${bind('currency')} error=${act.error} placeholder="EUR" /></div>
    <${Field} label="Webhook secret" type="password" ...${bind('secret')} name="webhook_secret" error=${act.error}
      help="A text of your own that signs pushes. Empty: it stays as it is; below, one is made." />
  </${Form}></${Card}>`
}

/** The numbers that differ from what was there, so that a default that was shown does not become a setting. @param {Record<string, any>} now @param {Record<string, any>} before */
function changed(now, before) {
  const list = Object.entries(now).map(([k, v]) => /** @type {[string, any]} */ ([k, numberOrNull(v)])).filter(([k, v]) => v !== before[k])
  return list.length > 0 ? Object.fromEntries(list) : null
}

/** @param {any[]|undefined|null} prices */
const pricesText = (prices) => (prices ?? []).map((p) => `${p.model} ${p.input} ${p.output}`).join('\n')

/** @param {string} text */
function pricesOf(text) {
  return text.split('\n').map((l) => l.trim()).filter(Boolean).map((line) => {
    const [model, input, output, ...more] = line.split(/\s+/)
    const price = { model, input: Number(input), output: Number(output) }
    if (more.length > 0 || !(price.input >= 0 && price.output >= 0)) throw new Error(`This is not a model and two numbers: ${line}`)
    return price
  })
}
