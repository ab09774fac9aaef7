// The organization: its limits, its rates, its retention, and the secrets that sign its pushes.
import { html } from '../html.js'
import { patch } from '../api.js'
import { useLive } from '../live.js'
import { number } from '../format.js'
import { may } from '../session.js'
import { ask } from '../ui/dialog.js'
import { EditForm, useEdit } from '../ui/edit.js'
import { BudgetFields, budgetWords, Field, Parsed, withBudget } from '../ui/form.js'
import { Await, Card, Facts, Id, Needs, Page, Time } from '../ui/parts.js'
import { Secret } from './webhooks.js'

export function Settings() {
  return html`<${Page} title="Settings"><${Mine} /><${Needs} level="admin" to="Changing the organization"><${Organization} /></${Needs}></${Page}>`
}

/** The signed-in key, and the limits that hold for it. */
function Mine() {
  const live = useLive('/me')
  /** @type {import('../session.js').Schemas['Me']} */
  const who = live.data
  return html`<${Card} title="This key"><${Await} of=${live}>${() => html`<${Facts} rows=${[
    ['Name', who.api_key.name], ['Prefix', html`<code>${who.api_key.prefix}…</code>`], ['Level', who.level], ['Sees chats', who.sees === 'own' ? 'of its user' : 'of everybody'], ['User', who.user.email || who.user.name], ['Organization', who.organization?.name ?? 'none'],
    ['Active runs', `${number(who.activity.active_runs_of_user)} of ${number(who.limits.active_runs_of_user)}`], ['Requests a minute', number(who.limits.requests_per_minute)],
    ...(who.budgets ?? []).map((b) => /** @type {[string, any]} */ ([`Budget of ${b.kind.replace('_', ' ')}`, `${budgetWords(b)}; used ${number(b.tokens)} tokens, ${number(b.runs)} runs`])),
  ]} />`}</${Await}></${Card}>`
}

function Organization() {
  const organization = useLive(may('admin') ? '/organization' : null)
  const o = organization.data
  return html`<${Await} of=${organization}>${() => html`
    <${Card} title="Organization"><${Facts} rows=${[['Name', o.name], ['Id', html`<${Id} id=${o.organization_id} />`], ['Created', html`<${Time} at=${o.created_at} />`],
      o.ceilings && ['Ceilings', `${number(o.ceilings.caps?.user)} runs a user, ${number(o.ceilings.caps?.organization)} runs in all, ${number(o.ceilings.rate_limit?.requests_per_minute)} requests a minute`]]} /></${Card}>
    <${Edit} of=${organization} />
    <${Card} title="Webhook secret"><p>${o.webhook_secret_configured ? 'A secret is set: webhooks are signed.' : 'No secret is set: webhooks are not signed.'}</p><${Secret} />
      ${o.webhook_secret_configured && html`<button type="button" class="secondary" onClick=${unsign}>Remove the secret</button>`}</${Card}>`}</${Await}>`
}

const unsign = () => ask({
  title: 'Remove the secret?', text: html`<p>Webhooks then have no signature, or the deployment's own; receivers that check the signature refuse them.</p>`,
  act: () => patch('/organization', { webhook_secret: null }),
})

/** The form's members by those of the API that they are part of. @type {Record<string, [string, string]>} */
const within = { user: ['caps', 'user'], organization: ['caps', 'organization'], rpm: ['rate_limit', 'requests_per_minute'], burst: ['rate_limit', 'burst'] }

/** @param {any} o */
const formOf = (o) => ({
  name: o.name, ...Object.fromEntries(Object.entries(within).map(([n, [whole, part]]) => [n, o[whole][part]])),
  run_retention_days: o.run_retention_days, budget: o.budget, chat_visibility: o.chat_visibility, currency: o.currency ?? '', prices: o.prices ?? [], webhook_secret: '',
})

/** Only the changed members, so that a default that was shown does not become a setting. @param {Record<string, any>} changed */
function bodyOf(changed) {
  /** @type {Record<string, any>} */
  const body = {}
  for (const [name, value] of Object.entries(changed)) {
    const [whole, part] = within[name] ?? []
    if (whole) body[whole] = { ...body[whole], [part]: value }
    else body[name] = name === 'currency' ? value || null : value
  }
  return withBudget(body)
}

/** @param {{of: any}} p */
function Edit({ of }) {
  const edit = useEdit(of, '/organization', formOf, bodyOf)
  const { bind } = edit
  const num = (/** @type {string} */ name, /** @type {string} */ label, help = 'Empty: the default.') =>
    html`<${Field} label=${label} min="1" ...${edit.number(name, within[name]?.join('.') ?? name)} help=${help} />`
  return html`<${Card} title="Edit"><${EditForm} edit=${edit}>
    <${Field} label="Name" ...${bind('name')} required />
    <div class="row">${num('user', 'Active runs of a user')}${num('organization', 'Active runs in all')}${num('rpm', 'Requests a minute')}${num('burst', 'Requests at once')}
    ${num('run_retention_days', 'Retention (days)', 'Days to keep ended runs. Empty: no end.')}</div>
    <${Field} label="Who sees chats" ...${bind('chat_visibility')} options=${[['own', 'Only their user and managers'], ['organization', 'Everybody in the organization']]}
      help="Users never see chats with agents that they may not use. An agent may limit its chats to their users." />
    <${BudgetFields} ...${bind('budget')} />
    <div class="row"><${Parsed} label="Prices" rows=${4} ...${bind('prices')} read=${pricesOf} write=${pricesText} help="One model per line: provider/name, then the price of a million input and output tokens. Empty: no costs are shown." />
      <${Field} label="Currency" ...${bind('currency')} placeholder="EUR" /></div>
    <${Field} label="Webhook secret" type="password" ...${bind('webhook_secret')}
      help="A text of your own that signs webhooks. Empty: unchanged. Rotate the secret to generate one." />
  </${EditForm}></${Card}>`
}

/** @param {any[]|undefined|null} prices */
const pricesText = (prices) => (prices ?? []).map((p) => `${p.model} ${p.input} ${p.output}`).join('\n')

/** @param {string} text */
function pricesOf(text) {
  return text.split('\n').map((l) => l.trim()).filter(Boolean).map((line) => {
    const [model, input, output, ...more] = line.split(/\s+/)
    const price = { model, input: Number(input), output: Number(output) }
    if (more.length > 0 || !(price.input >= 0 && price.output >= 0)) throw new Error(`Write a model and two numbers on this line: ${line}`)
    return price
  })
}
