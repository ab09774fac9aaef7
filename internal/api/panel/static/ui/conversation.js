// A chat that the user has open: its messages, the active run, and the next message. It outlives the parts of the page
// that show it, so that a new chat keeps its stream when it gets its address.
import { signal } from '../vendor/signals.js'
import { Failure, get, Once, post, request } from '../api.js'
import { after, ended, events, follow } from '../stream.js'

/** @template T @typedef {import('../vendor/signals.js').Signal<T>} Signal */

/** The text that is being written. It stays until it was sent, wherever the user goes meanwhile. */
class Draft {
  constructor() {
    this.text = signal('')
    /** @type {Signal<File[]>} */
    this.files = signal([])
    this.once = new Once()
  }
}

/** @type {Map<string, Draft>} */
const drafts = new Map()

/** @type {Map<string, Conversation>} */
const open = new Map()

/** The conversation of a chat; of a new one for an empty id. @param {string} chatId */
export function conversation(chatId) {
  let c = open.get(chatId)
  if (!c) open.set(chatId, (c = new Conversation(chatId)))
  return c
}

export class Conversation {
  /** @param {string} chatId */
  constructor(chatId) {
    this.chatId = chatId
    this.draft = drafts.get(chatId) ?? new Draft()
    drafts.set(chatId, this.draft)
    /** The turns that were read, by run. @type {Map<string, {turn: number, ended: boolean, messages: any[]}>} */
    this.turns = new Map()
    /** Their messages. @type {Signal<any[]|null>} */
    this.messages = signal(chatId ? null : [])
    /** Where the turns before them begin; empty: there are none. */
    this.earlier = signal('')
    /** The run under way. @type {import('../stream.js').Watched|null} */
    this.state = null
    /** The same, as it is shown. @type {Signal<import('../stream.js').Watched|null>} */
    this.now = signal(null)
    this.showing = 0
    /** How long it took to show it last, in ms. */
    this.took = 0
    /** The message that was sent and is not among the messages yet. @type {Signal<{text: string, files: string[]}|null>} */
    this.sent = signal(null)
    /** The run that ended last, where it did not end well. @type {Signal<any>} */
    this.failed = signal(null)
    /** @type {Signal<any>} */
    this.error = signal(null)
    this.agentId = signal('')
    this.lookers = 0
    this.following = ''
    this.ending = new AbortController()
    /** @type {(id: string) => void} */
    this.named = () => {}
  }

  /** Begins to watch. */
  enter() {
    this.lookers++
    const again = this.ending.signal.aborted // the page's parts were made anew
    if (again) {
      this.ending = new AbortController()
      this.following = ''
      this.became(null)
      open.set(this.chatId, this)
    }
    if (this.chatId && (again || this.messages.value === null)) this.load()
  }

  leave() {
    if (--this.lookers > 0) return
    this.ending.abort()
    if (open.get(this.chatId) === this) open.delete(this.chatId)
  }

  get busy() {
    const n = this.now.value
    return n !== null && !ended(n.status)
  }

  /** Reads the messages, and follows the active run. */
  async load() {
    try {
      const runs = await this.read()
      if (runs.length > 0) this.agentId.value = runs[0].agent_id
      const active = runs.find((/** @type {any} */ r) => !ended(r.status))
      if (active) this.watch(active.run_id)
      this.error.value = null
    } catch (e) {
      if (!this.ending.signal.aborted) this.error.value = e
    }
  }

  /** Reads the newest turns, back to one that is known; or those before all that are. A turn that has ended is read once. */
  async read(cursor = '') {
    const { signal } = this.ending
    const path = `/chats/${encodeURIComponent(this.chatId)}/runs`
    const first = this.turns.size === 0
    /** @type {any[]} */
    const runs = []
    for (let known = false, from = cursor; !known;) {
      const page = await get(path, { limit: 10, cursor: from }, { signal })
      const fresh = page.runs.filter((/** @type {any} */ r) => !this.turns.get(r.run_id)?.ended)
      const said = await Promise.all(fresh.map((/** @type {any} */ r) => get(`/runs/${r.run_id}/messages`, {}, { signal })))
      fresh.forEach((/** @type {any} */ r, /** @type {number} */ i) =>
        this.turns.set(r.run_id, { turn: r.turn, ended: ended(r.status), messages: said[i].messages }))
      runs.push(...page.runs)
      from = page.next_cursor ?? ''
      known = first || !!cursor || !from || fresh.length < page.runs.length
      if (first || cursor) this.earlier.value = from
    }
    this.messages.value = [...this.turns.values()].sort((a, b) => a.turn - b.turn).flatMap((t) => t.messages)
    return runs
  }

  /** Follows a run to its end, then the run after it. @param {string} runId */
  async watch(runId) {
    if (this.following === runId) return
    this.following = runId
    try {
      await follow(runId, (e) => this.told(e), this.ending.signal)
    } catch (e) {
      this.error.value = e
    }
    if (this.following === runId) await this.settle()
  }

  /** @param {any} e */
  told(e) {
    if (e.event === 'lost') return this.became(this.state && { ...this.state, connected: false })
    const next = after(this.state, e)
    if (e.event === 'delta') this.became(next, 40 + (next?.text.length ?? 0) / 200 + 4 * this.took) // so that a long answer is not drawn anew for each word
    else this.became(next)
    if (e.event !== 'init') return
    this.agentId.value = e.run.agent_id
    if (this.chatId) return
    this.chatId = e.run.chat_id
    for (const [all, mine] of /** @type {Array<[Map<string, any>, any]>} */ ([[open, this], [drafts, this.draft]])) {
      all.delete('')
      all.set(this.chatId, mine)
    }
    this.named(this.chatId)
  }

  /** Sets the state of the run; it is shown after so many ms. @param {import('../stream.js').Watched|null} state */
  became(state, wait = 0) {
    this.state = state
    const show = () => {
      clearTimeout(this.showing)
      this.showing = 0
      const begun = performance.now()
      this.now.value = this.state
      window.setTimeout(() => { this.took = Math.min(1000, performance.now() - begun) }) // it is drawn before that
    }
    if (wait === 0) show()
    else this.showing ||= window.setTimeout(show, wait)
  }

  /** When a run has ended: reads its messages, and looks for the next run. */
  async settle() {
    this.following = ''
    if (this.ending.signal.aborted) return
    const run = this.state?.run
    await this.load()
    if (!this.following) {
      this.became(null)
      this.sent.value = null
    }
    this.failed.value = run && ['failed', 'timed_out', 'cancelled'].includes(run.status) ? run : null
  }

  /**
   * Sends the written text. It throws where the service did not accept it, and nothing has changed then.
   * @param {{agentId: string, version: string, behind: boolean}} m
   */
  async send(m) {
    const draft = this.draft
    const [text, files] = [draft.text.value, draft.files.value]
    const form = new FormData()
    form.set('agent_id', m.agentId)
    if (text) form.set('message', text)
    if (this.chatId) form.set('chat_id', this.chatId)
    if (m.version) form.set('agent_version', m.version)
    form.set('idempotency_key', draft.once.key([text, m.agentId, m.version, files.map((f) => [f.name, f.size, f.lastModified])]))
    const busy = this.busy
    if (busy) form.set('wait', 'false')
    else form.set('streaming', 'true')
    if (m.behind) form.set('on_conflict', 'enqueue')
    for (const f of files) form.append('file', f, f.name)
    const answer = await this.posted(form)
    draft.once.done()
    if (draft.text.value === text) draft.text.value = '' // what was typed meanwhile is the next message
    if (draft.files.value === files) draft.files.value = []
    this.failed.value = null
    if (busy) return
    this.sent.value = { text, files: files.map((f) => f.name) }
    this.stream(answer)
  }

  /** Sends a form, and sends it again where no answer comes: the key makes that one message. @param {FormData} form */
  async posted(form) {
    for (let tries = 1; ; tries++) {
      try {
        return await request('POST', '/chat', { body: form })
      } catch (e) {
        if (e instanceof Failure && e.code === 'chat_busy') this.watch(e.body.active_run_id)
        if (!(e instanceof Failure) || e.status !== 0 || tries === 3) throw e
        await new Promise((resolve) => setTimeout(resolve, 400 * tries))
      }
    }
  }

  /** Reads the answer to a message as it comes; the rest of it, when the connection ends before the run, from elsewhere. @param {Response} answer */
  async stream(answer) {
    const runId = answer.headers.get('x-agent-run-id') ?? ''
    this.following = runId
    try {
      if (answer.headers.get('content-type')?.includes('ndjson')) {
        for await (const e of events(answer, this.ending.signal)) {
          if (this.ending.signal.aborted) return
          this.told(e)
          if (e.event === 'done') return await this.settle()
        }
      }
    } catch {
      this.told({ event: 'lost' })
    }
    if (this.ending.signal.aborted) return
    this.following = ''
    await this.watch(runId)
  }

  async stop() {
    const n = this.state
    if (n) await post(`/runs/${n.run.run_id}/cancel`, {})
  }
}
